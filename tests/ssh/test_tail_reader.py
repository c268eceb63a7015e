"""orch tail of two hosts whose output somebody reads slowly, or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from orchestrator.run.spec import RunSpec
from tests.ssh.server import Server, serving
from tests.unit.followed import readers
from tests.unit.here import MACHINE
from tests.until import until

HOSTS = ("gpu01", "gpu02")
RUN = "20261130-0214-nightly-7f3a"
SIZE = 60_000_000
ROOT = Path(__file__).resolve().parents[2]


class Place:
    """A run of two workers whose logs are long, each on a host of its own."""

    def __init__(self, folder: Path, servers: list[Server], transport: str) -> None:
        self.folder, self.logs = folder, [self._log(*pair) for pair in zip(HOSTS, servers, strict=True)]
        ways = [
            f"{host} ansible_host=127.0.0.1 ansible_port={server.port} "
            f"ansible_ssh_private_key_file={server.login} root={server.home}/orch"
            for host, server in zip(HOSTS, servers, strict=True)
        ]
        own = ["[all:vars]", "person=ana", "project=p", f"transport={transport}"]
        (folder / "hosts.ini").write_text("\n".join(ways + own) + "\n")
        (folder / ".ssh").mkdir(mode=0o700)
        for server in servers:
            server.trust(path=folder / ".ssh/known_hosts")

    def _log(self, host: str, server: Server) -> Path:
        worker = server.home / "orch/ana/p/runs" / RUN / host
        worker.mkdir(parents=True)
        spec = RunSpec(RUN, ("sh",), HOSTS, "ana", "p", "9f3c", asked=1.0)
        (worker.parent / "spec.json").write_text(spec.text() + "\n")
        (worker / "worker.json").write_text(json.dumps({"environment": {"machine": MACHINE}}) + "\n")
        (worker / "lock").touch()
        state = {"state": "succeeded", "started": 5.0, "ended": 9.0, "exit_code": 0}
        (worker / "state.json").write_text(json.dumps(state) + "\n")
        chance = random.Random(host)
        lines = b"".join(b"%x\n" % chance.getrandbits(chance.randrange(1, 4000)) for _ in range(2000))
        log = worker / "training.log"
        log.write_bytes(lines * (SIZE // len(lines) + 1))
        return log

    @contextmanager
    def watched(self) -> Iterator[subprocess.Popen[bytes]]:
        """An `orch tail` that shows both logs on a pipe."""
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "tail", RUN],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        with process:
            try:
                assert process.stdout
                pipe, room = process.stdout.fileno(), 1 << 16
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, room)
                until(lambda: waiting(pipe) > room // 2, "a pipe that nothing more goes into")
                yield process
            finally:
                process.kill()


def waiting(pipe: int) -> int:
    """Return how many bytes wait in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0])


@pytest.fixture
def place(tmp_path: Path, transport: str) -> Iterator[Place]:
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(tmp_path / host)) for host in HOSTS]
        (tmp_path / "home").mkdir()
        yield Place(tmp_path / "home", servers, transport)


def most_memory(process: subprocess.Popen[bytes]) -> int:
    """Return the most bytes of memory that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) * 1024


def test_who_reads_late_gets_every_line_whole_and_costs_no_memory(place: Place) -> None:
    """120 MB wait on the hosts, not here. Nothing of one host's line is within another's."""
    with place.watched() as process:
        assert process.stdout
        shown: dict[str, list[bytes]] = {host: [] for host in HOSTS}
        for line in process.stdout:
            host, _, rest = line.partition(b" | ")
            shown[host.decode()].append(rest)
            if len(shown["gpu01"]) == 100:
                assert most_memory(process) < 110e6
        assert process.wait(60) == 0
    for host, log in zip(HOSTS, place.logs, strict=True):
        assert b"".join(shown[host]) == log.read_bytes()


def test_it_is_left_though_nobody_reads_what_it_shows(place: Place) -> None:
    """As in `orch tail | less`, where less is asked to stop."""
    with place.watched() as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr
        assert b"the run goes on" in process.stderr.read()
    for log in place.logs:
        until(lambda log=log: not readers(log), "the end of all that read the log")
