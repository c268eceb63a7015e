"""Bringing a bundle to a host: whole or not there, on a real shell and file system."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection
from orchestrator.run.code.bundle import Bundle, Changed, collect
from orchestrator.run.code.upload import upload
from tests.unit.here import Here, HereStream, machine_of

BUSYBOX_TOOLS = [
    "awk",
    "cat",
    "cp",
    "df",
    "echo",
    "find",
    "head",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "printf",
    "rm",
    "sh",
    "sha256sum",
    "sync",
    "tar",
    "timeout",
    "tr",
    "xargs",
]
PLACE = "~/.orch/ana/it's mnist"


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "src/train.py").write_text("print(1)\n")
    (top / "src/run.sh").write_text("#!/bin/sh\n")
    (top / "src/run.sh").chmod(0o755)
    (top / "big.bin").write_bytes(os.urandom(3_000_000))
    return collect(top, cache=tmp_path / "cache")


@pytest.fixture(params=["sh", "dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    return machine_of(request.param, tmp_path, BUSYBOX_TOOLS)


def bundles(machine: Here) -> Path:
    return Path(machine.env["HOME"]) / PLACE[2:] / "bundles"


def listed(machine: Here) -> list[str]:
    return sorted(p.name for p in bundles(machine).iterdir() if p.name != ".files")


def test_what_arrives_is_what_was_sent_and_read_only(machine: Here, bundle: Bundle, tmp_path: Path) -> None:
    heard: list[int] = []
    upload(machine, PLACE, bundle, told=heard.append)
    whole = bundles(machine) / bundle.digest
    assert listed(machine) == [bundle.digest]
    assert collect(whole, cache=tmp_path / "other").digest == bundle.digest
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in (whole, *whole.rglob("*"))}
    assert {modes["train.py"], modes["big.bin"]} == {"0o444"}
    assert (modes["run.sh"], modes["src"], modes[whole.name]) == ("0o555", "0o755", "0o755")
    assert heard == sorted(heard)
    assert heard[-1] > 3_000_000


def test_what_is_there_is_not_sent_again(machine: Here, bundle: Bundle) -> None:
    upload(machine, PLACE, bundle)
    heard: list[int] = []
    upload(machine, PLACE, bundle, told=heard.append)
    assert heard == []


def test_a_line_that_is_cut_leaves_nothing_that_looks_whole(
    machine: Here, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Bundle.tar
    monkeypatch.setattr("secrets.token_hex", lambda count: "ee")
    for kept in (0, 1, 512, 1024, 100_000, 3_000_000, -1536):  # the last: all but the end
        stream = b"".join(real(bundle, ".orch-end-ee"))[:kept]
        monkeypatch.setattr(Bundle, "tar", lambda self, end, here, cut=stream: iter([cut]))
        with pytest.raises(HostError, match="could not be placed"):
            upload(machine, PLACE, bundle)
        assert listed(machine) == []


def test_who_goes_before_the_answer_leaves_nothing(
    machine: Here, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int | None] = []

    def killed(self: HereStream, data: bytes) -> None:
        self.stdout.close()  # what the host says next has nowhere to go: SIGPIPE
        self.stdin.write(data)
        self.stdin.close()
        ended.append(self.status())
        raise KeyboardInterrupt

    monkeypatch.setattr(HereStream, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        upload(machine, PLACE, bundle)
    assert ended[0] != 0
    assert listed(machine) == []


def test_a_file_that_changed_leaves_nothing(machine: Here, bundle: Bundle) -> None:
    (bundle.top / "src/train.py").write_text("print(2)\n")
    with pytest.raises(Changed, match=r"src/train\.py"):
        upload(machine, PLACE, bundle)
    assert listed(machine) == []


def test_two_uploads_at_once_both_end_well(machine: Here, bundle: Bundle, tmp_path: Path) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(3)

    def one() -> None:
        try:
            barrier.wait()
            upload(machine, PLACE, bundle)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert listed(machine) == [bundle.digest]
    assert collect(bundles(machine) / bundle.digest, cache=tmp_path / "other").digest == bundle.digest


def test_what_old_uploads_left_is_cleared_away(machine: Here, bundle: Bundle) -> None:
    for name, age in (("old", 2), ("young", 0.5)):
        part = bundles(machine) / f".part-{name}"
        (part / "d").mkdir(parents=True)
        (part / "d/f").write_text("x")
        (part / "d/f").chmod(0o444)
        then = time.time() - age * 86400
        os.utime(part, (then, then))
    upload(machine, PLACE, bundle)
    assert listed(machine) == [".part-young", bundle.digest]


@pytest.fixture
def small_disk(machine: Here) -> Iterator[Path]:
    """Bundles on a file system of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("a full disk needs root, to mount one")
    place = bundles(machine)
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "orch-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_too_small_is_said_before_anything_is_sent(
    machine: Here, bundle: Bundle, small_disk: Path
) -> None:
    heard: list[int] = []
    with pytest.raises(HostError) as caught:
        upload(machine, PLACE, bundle, told=heard.append)
    assert str(caught.value) == (
        f"here: no space left on device: the code needs 3.0 MB, 2.1 MB free at {PLACE}/bundles"
    )
    assert heard == []
    assert listed(machine) == []


def test_a_disk_that_fills_up_meanwhile_is_said_and_left_clean(
    machine: Here, bundle: Bundle, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.run.code.upload._space", lambda bundle: 1024)
    with pytest.raises(HostError, match="no space left on device: the code needs"):
        upload(machine, PLACE, bundle)
    assert listed(machine) == []


def test_a_connection_that_goes_is_said(
    machine: Here, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: HereStream, data: bytes) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        raise BrokenPipeError

    monkeypatch.setattr(HereStream, "write", gone)
    with pytest.raises(LostConnection, match="here: the upload of the code was cut off"):
        upload(machine, PLACE, bundle)


def test_a_place_that_can_t_be_made_is_said(machine: Here, bundle: Bundle) -> None:
    (Path(machine.env["HOME"]) / ".orch").write_text("a file")
    with pytest.raises(HostError, match=r"could not be placed in .*: mkdir: .*Not a directory"):
        upload(machine, PLACE, bundle)
