"""What becomes of a script on the host when nobody waits for its answer any more."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from tests.ssh.peers import pid_of_session
from tests.ssh.server import Server
from tests.ssh.test_accounts import SHELLS, restart
from tests.until import until

HANGS = "echo $$ > ~/up; sleep 300 & echo $! > ~/child; wait; echo never > ~/never"


@pytest.fixture
def started(sshd: Server) -> Iterator[list[int]]:
    """Collects what a test started on the host, and ends it."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def pids(home: Path) -> list[int]:
    return [int((home / name).read_text()) for name in ("up", "child")]


def has_begun(home: Path) -> bool:
    return (home / "child").exists() and (home / "child").read_text() != ""


def ended(pids: list[int]) -> None:
    until(lambda: not any(map(alive, pids)), "the end on the host")


def test_a_question_is_ended_on_the_host_after_its_deadline(sshd: Server, started: list[int]) -> None:
    with connect(sshd.host()) as machine:
        for seconds in (3, 60):  # a host that is busy may not have begun after 3
            with pytest.raises(HostError, match=f"ask: no answer within {seconds} s"):
                machine.run(Script("ask", HANGS, asks=True), deadline=seconds)
            if has_begun(sshd.home):
                break
        started += pids(sshd.home)
        ended(started)
        assert machine.run(Script("x", "echo on", asks=True)).out == b"on\n"
    assert not (sshd.home / "never").exists()


@pytest.mark.parametrize("shell", ["bash", "tcsh", "fish"])
def test_a_question_is_ended_when_the_connection_is_closed(
    sshd: Server, started: list[int], shell: str
) -> None:
    if shell not in SHELLS:
        pytest.skip(f"{shell} is not here")
    restart(sshd, f'ForceCommand exec {shell} -c "$SSH_ORIGINAL_COMMAND"')
    with connect(sshd.host()) as machine, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(machine.run, Script("ask", HANGS, asks=True))
        until(lambda: has_begun(sshd.home), "the begin")
        started += pids(sshd.home)
        machine.close()
        with pytest.raises(LostConnection):
            asked.result()
    ended(started)


def test_a_question_is_ended_with_its_connection(sshd: Server, started: list[int]) -> None:
    with connect(sshd.host()) as machine:
        text = f"{HANGS.partition('wait')[0]} kill -9 {pid_of_session(machine)}; wait"
        with pytest.raises(LostConnection):
            machine.run(Script("ask", text, asks=True))
        started += pids(sshd.home)
        ended(started)


def test_what_changes_something_comes_to_its_end(sshd: Server, started: list[int]) -> None:
    with connect(sshd.host()) as machine:
        with pytest.raises(HostError, match="change: no answer within 3 s"):
            machine.run(Script("change", HANGS), deadline=3)
        until(lambda: has_begun(sshd.home), "the begin")
        started += pids(sshd.home)
        os.kill(started[1], signal.SIGTERM)
        ended(started)
    until((sshd.home / "never").exists, "its end")


def test_a_command_that_is_too_long_for_a_stream_is_refused_with_the_limit(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        with machine.stream(Command.of("printf", "%s", "x" * 70_000)) as stream:
            assert len(b"".join(iter(stream.read, b""))) == 70_000
        with pytest.raises(HostError, match=r"too long to be started: 100000 at most\. Send what is long"):
            machine.stream(Command.of("printf", "%s", "x" * 100_000))
