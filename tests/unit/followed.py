"""A worker's folder as a supervisor keeps it, and what follows its log on real shells."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.logs.follow import Following
from tests.unit.here import Here, machine_of
from tests.until import until

BUSYBOX_TOOLS = ("awk", "cat", "date", "find", "head", "sh", "sleep", "stat", "tail", "true", "wc")


@pytest.fixture(params=["dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    made = machine_of(request.param, tmp_path, BUSYBOX_TOOLS)
    if request.param == "busybox":
        (tmp_path / "tools" / "flock").symlink_to(shutil.which("flock") or "")
    return made


class Worker:
    """A worker's folder as a supervisor keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "training.log"
        folder.mkdir(parents=True)
        self.held = (folder / "lock").open("w")
        fcntl.flock(self.held, fcntl.LOCK_EX)
        self.state()

    def state(self, **fields: object) -> None:
        part = self.folder / "state.json.part"
        part.write_text(json.dumps({"state": "running", **fields}) + "\n")
        part.rename(self.folder / "state.json")

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as out:
            out.write(data)

    def end(self) -> None:
        self.state(ended=1.5)
        self.held.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path / "it's a run" / "gpu01")
    yield made
    made.held.close()
    until(lambda: not readers(made.log), "the end of all that read the log")


def readers(log: Path) -> list[str]:
    """The processes that have a log on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += [process.name] * (os.fsencode(log) in (process / "cmdline").read_bytes().split(b"\0"))
    return found


def never() -> Here:
    raise AssertionError("there was no need to connect again")


def follow(machine: Here, worker: Worker, **how: object) -> Following:
    return Following(machine, how.pop("reconnect", never), str(worker.folder), **how)  # type: ignore[arg-type]


def collected(following: Following) -> bytes:
    return b"".join(piece.data for piece in following.pieces())


def left_over(worker: Worker) -> list[str]:
    """Return the command lines of processes that still have to do with the log."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if int(place.parent.name) != os.getpid() and str(worker.folder.parent.parent) in words:
            found.append(words)
    return found
