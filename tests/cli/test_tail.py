"""orch tail on real shells of this machine, each with a home of its own: what is shown, saved and said."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import flow
from orchestrator.cli.app import App
from orchestrator.cli.main import run
from orchestrator.errors import LostConnection, Unreachable
from orchestrator.hosts.base import Stream
from orchestrator.inventory import Host
from orchestrator.run.spec import RunSpec
from tests.unit.here import MACHINE, Here
from tests.until import until

RUN = "20261130-0214-nightly-7f3a"
HOSTS = ("gpu01", "gpu02")
SPEC = RunSpec(RUN, ("sh",), HOSTS, "ana", "mnist", "9f3c", name="nightly", asked=1.0)


class Lab:
    """A run of two workers that has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gone: set[str] = set()  # hosts that don't answer,
        self.dying: set[str] = set()  # and those that don't any more when their log is asked for
        (folder / "hosts.ini").write_text("gpu[01:02]\n[all:vars]\nperson=ana\nproject=mnist\n")
        for host in HOSTS:
            self.worker(host).mkdir(parents=True)
            (self.worker(host) / "training.log").write_bytes(
                b"nohup: ignoring input\n" + host.encode() + b" says hi\n"
            )
            (self.worker(host).parent / "spec.json").write_text(SPEC.text() + "\n")
            (self.worker(host) / "worker.json").write_text(
                json.dumps({"environment": {"machine": MACHINE}}) + "\n"
            )
            (self.worker(host) / "lock").touch()
            self.ended(host, "succeeded", 0)

    def die(self, host: Host) -> Stream:
        self.gone.add(host.name)
        raise LostConnection("the connection was closed", where=host.name)

    def worker(self, host: str) -> Path:
        return self.folder / host / ".orch/ana/mnist/runs" / RUN / host

    def ended(self, host: str, state: str, code: int, **more: Any) -> None:
        fields = {
            "state": state,
            "started": 5.0,
            "ended": 9.0,
            "exit_code": code,
            "cause": {"kind": "exit", "code": code},
            **more,
        }
        (self.worker(host) / "state.json").write_text(json.dumps(fields) + "\n")

    def tail(self, *words: str) -> int:
        def connect(host: Host) -> Here:
            if host.name in self.gone:
                raise Unreachable("no route to host", where=host.name)
            machine = Here(self.folder / host.name)
            machine.host = host
            if host.name in self.dying:
                machine.stream = lambda *asked, **how: self.die(host)  # type: ignore[method-assign]
            return machine

        own = {
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        return run(["tail", *words], app=App(connect=connect, environ=own, cwd=self.folder))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


WHOLE = "--output takes the whole log as it is: no -n, --since or --raw with it"
Said = pytest.CaptureFixture[str]


def test_each_worker_s_lines_have_its_host_before_them(lab: Lab, capfd: Said) -> None:
    assert lab.tail() == 0
    said = capfd.readouterr()
    assert sorted(said.out.splitlines()) == ["gpu01 | gpu01 says hi", "gpu02 | gpu02 says hi"]
    assert said.err.splitlines()[-1] == f"run     {RUN} succeeded after 4 s"


def test_one_worker_s_lines_have_nothing_before_them(lab: Lab, capfd: Said) -> None:
    assert lab.tail("--hosts", "gpu01") == 0
    assert capfd.readouterr().out == "gpu01 says hi\n"


def test_it_ends_with_the_status_of_the_worker_that_failed(lab: Lab) -> None:
    lab.ended("gpu02", "failed", 3)
    assert lab.tail() == 3
    assert lab.tail("--no-follow") == 0


def test_it_ends_with_the_status_of_the_worker_that_failed_first(lab: Lab, capfd: Said) -> None:
    """The others name it; that their end came by their own clock before says nothing."""
    lab.ended("gpu01", "failed", 143, cause={"kind": "peer", "host": "gpu02", "how": "failed"}, ended=8.0)
    lab.ended("gpu02", "failed", 3)
    assert lab.tail() == 3
    first, second, whole = capfd.readouterr().err.splitlines()[-3:]
    assert first.startswith("gpu01   failed after 3 s: ")
    assert second == "gpu02   failed after 4 s: exit 3"
    assert whole == f"run     {RUN} failed on gpu02 after 4 s: exit 3   (exit status 3 is the run's)"


def test_it_ends_when_the_run_ended_without_a_host_that_is_gone(
    lab: Lab, capfd: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "_ASKED_EVERY", 0.0)
    lab.dying.add("gpu02")
    lab.ended("gpu01", "failed", 143, cause={"kind": "peer", "host": "gpu02", "how": "lost"})
    before = threading.active_count()
    assert lab.tail() == 143
    until(lambda: threading.active_count() <= before, "that nobody tries to reach it any more")
    said = capfd.readouterr()
    assert said.out == "gpu01 | gpu01 says hi\n"
    assert "orch: gpu02: the run ended without it: its log is not whole here\n" in said.err
    assert " failed on gpu01 after 4 s: peer gpu02 lost (no word for 30 s) " in said.err


def test_a_log_that_cannot_be_read_is_said_and_counts(lab: Lab, capfd: Said) -> None:
    (lab.worker("gpu02") / "training.log").unlink()
    for words in ((), ("--no-follow",), ("--output", "logs")):
        assert lab.tail(*words) == 1
        said = capfd.readouterr()
        assert "orch: gpu02: the log can't be read: somebody removed it" in said.err.splitlines()
        assert said.out == ("" if words[:1] == ("--output",) else "gpu01 | gpu01 says hi\n")
    assert (lab.folder / "logs/gpu01.log").exists()


def test_a_worker_of_which_there_is_no_record_is_said_and_counts(lab: Lab, capfd: Said) -> None:
    (lab.worker("gpu02") / "worker.json").unlink()
    assert lab.tail() == 1
    said = capfd.readouterr()
    assert said.err.startswith(
        "orch: gpu02: no answer, or no record of the run there: its log is missing here\n"
    )
    assert said.out == "gpu01 says hi\n"
    assert lab.tail("--hosts", "gpu01") == 0


def test_output_is_a_file_for_each_worker_that_is_gone_on_with(lab: Lab, capfd: Said) -> None:
    for more in (b"", b"and \xff more, without an end"):
        for host in HOSTS:
            with (lab.worker(host) / "training.log").open("ab") as log:
                log.write(more)
        assert lab.tail("--output", "logs", "nightly") == 0
        said = capfd.readouterr()
        assert said.out == ""
        for host in HOSTS:
            assert (lab.folder / f"logs/{host}.log").read_bytes() == (
                lab.worker(host) / "training.log"
            ).read_bytes()
    assert f"gpu01   62 B in {lab.folder / 'logs/gpu01.log'}\n" in said.err


def test_since(lab: Lab, capfd: Said) -> None:
    folder, now = lab.worker("gpu01"), int(time.time())
    (folder / "sizes").write_text(f"{now - 3600} 22\n")
    with (folder / "training.log").open("ab") as log:
        log.write(b"and more\n")
    assert lab.tail("--hosts", "gpu01", "--since", "10m") == 0
    assert capfd.readouterr().out == "gpu01 says hi\nand more\n"
    os.utime(folder / "training.log", (now - 700, now - 700))
    assert lab.tail("--hosts", "gpu01", "--since", "10m") == 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-n", "5", "--since", "10m"), "-n and --since exclude each other"),
        (("--since", "soon"), "--since soon: not a time like 90s, 30m, 1h or 1d12h"),
        (("--output", "x", "--raw"), WHOLE),
        (("--output", "x", "-n", "0"), WHOLE),
        (("--output", "x", "--since", "1s"), WHOLE),
        (("--raw",), f"run {RUN} has workers on gpu01, gpu02. Name one with --hosts."),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(lab: Lab, capfd: Said, words: tuple[str, ...], why: str) -> None:
    assert lab.tail(*words) == 2
    assert capfd.readouterr().err == f"orch: {why}\n"
    assert not (lab.folder / "x").exists()


def test_an_output_that_is_no_folder_is_said_in_one_line(lab: Lab, capfd: Said) -> None:
    (lab.folder / "logs").mkdir()
    (lab.folder / "logs/gpu01.log").mkdir()
    assert lab.tail("--output", "logs") == 2
    assert "gpu01.log is there, and not written by orch tail" in capfd.readouterr().err
    assert lab.tail("--output", "hosts.ini/logs") == 1
    assert capfd.readouterr().err == f"orch: {lab.folder / 'hosts.ini/logs'}: Not a directory\n"
