"""Turns on the host: a change alone, launches together, neither while the other."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.container.turn import LOCK, turn
from orchestrator.errors import Busy
from orchestrator.hosts.command import Script
from tests.unit.test_launch import Place, place

__all__ = ["place"]  # a fixture


def free(place: Place) -> bool:
    with (place.here / LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.fixture(autouse=True)
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody sleep for a second between two tries."""
    tools = tmp_path / "impatient"
    tools.mkdir()
    (tools / "sleep").write_text("#!/bin/sh\n[ $1 = 1 ] || exec /bin/sleep $1\n")
    (tools / "sleep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")


def test_a_change_has_its_turn_alone_and_gives_it_back(place: Place) -> None:
    with turn(place.machine, str(place.folder)):
        assert not free(place)
        with pytest.raises(Busy, match=r"another deploy, down or launch by .*@.* is going on"):
            with turn(place.machine, str(place.folder)):
                pass
    soon(lambda: free(place))


def soon(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_change_that_is_broken_off_is_undone_once_its_start_is_over(place: Place) -> None:
    undone = place.folder / "undone"
    undo = Script("undo", f"echo undone >> {shlex.quote(str(undone))}")
    with turn(place.machine, str(place.folder), undo):
        pass
    soon(lambda: free(place))
    assert not undone.exists()

    with (place.here / f"{LOCK}.start").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        # as a cut line does: the stream ends, and nobody says `done`
        broken = turn(place.machine, str(place.folder), undo)
        broken.__enter__()
        broken.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert not free(place)
        assert not undone.exists()
    soon(undone.exists)
    soon(lambda: free(place))


def test_nothing_is_launched_during_a_change(place: Place) -> None:
    with turn(place.machine, str(place.folder)):
        with pytest.raises(Busy, match=r"a deploy or down by .*@.* is going on"):
            place.launch("true")
        assert not (place.folder / "runs").exists()
    assert place.launch("sleep", "60").state["state"] == "running"


def test_a_run_keeps_no_turn(place: Place) -> None:
    with turn(place.machine, str(place.folder)):
        pass
    place.launch("sleep", "60")
    assert free(place)
