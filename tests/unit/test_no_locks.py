"""Runs on a disk without file locks: they start, are judged by process and heartbeat, and can be stopped."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.run.status import judge
from orchestrator.run.stop import stop
from tests.unit.run_place import Place, place, tool
from tests.unit.test_facts_place import look

__all__ = ["place"]  # a fixture

NO_LOCKS = "echo 'flock: No locks available' >&2\nexit 71"


@pytest.fixture(autouse=True)
def without(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `flock` that finds no locks, for the host's scripts and for the environment."""
    tool(place, "flock", NO_LOCKS)
    monkeypatch.setenv("PATH", f"{place.root / 'tools'}:{os.environ['PATH']}")


def lives(place: Place) -> list[str]:
    found = look(place.folder, Path.home(), path=os.environ["PATH"])
    return [run.run for run in found.live]


def test_a_run_starts_is_judged_by_its_process_and_can_be_stopped(place: Place) -> None:
    assert place.launch("sleep", "60").state["state"] == "running"
    (record,) = place.records()
    assert record.lock == "unknown"
    assert (judge(record).state, judge(record).cause) == ("running", "judged by process")
    assert lives(place) == place.runs
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    assert judge(record).state == "stopped"
    assert lives(place) == []
    assert stop(place.machine, record, by="bob").how == "already"


def test_one_that_was_killed_is_lost_when_its_heartbeat_is_old(place: Place) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state["pid"], signal.SIGKILL)
    os.kill(record.state["child"], signal.SIGKILL)
    (record,) = place.records()
    assert judge(record).cause == "judged by heartbeat"
    old = replace(record.ground, uptime=record.ground.uptime + 120, supervisors=frozenset())
    assert judge(replace(record, ground=old)).state == "lost"
    state = place.worker() / "state.json"
    os.utime(state, (1, 1))
    assert lives(place) == []
    assert stop(place.machine, record, by="bob", grace=1).how == "lost"
