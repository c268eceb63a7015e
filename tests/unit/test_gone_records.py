"""A record that was deleted while its run lives: the run is seen, named and ended all the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.errors import HostError
from orchestrator.run.status import judge
from orchestrator.run.stop import stop
from tests.unit.run_place import RUN, Place, place

__all__ = ["place"]  # a fixture


def test_a_run_whose_record_was_deleted_is_seen_and_ended(place: Place) -> None:
    place.launch("sleep", "60")
    place.launch("sleep", "60", run=RUN + "2")
    shutil.rmtree(place.worker().parent)
    other, gone = sorted(place.records(), key=lambda record: record.gone)
    assert (other.spec.run, other.gone, judge(other).state) == (RUN + "2", False, "running")
    assert (gone.spec.run, gone.spec.person) == (RUN + "1", "ana maria")
    assert (judge(gone).state, judge(gone).cause) == ("running", "its record was deleted under it")
    assert stop(place.machine, gone, by="bob", grace=5).how == "stopped"
    (left,) = place.records()
    assert judge(left).state == "running"
    assert not place.worker().parent.exists()


def test_one_whose_work_alone_was_deleted_has_its_record(place: Place) -> None:
    place.launch("sleep", "60")
    shutil.rmtree(place.worker() / "work")
    (place.worker().parent / "plots").mkdir()
    (record,) = place.records()
    assert (record.gone, judge(record).state, judge(record).cause) == (False, "running", "")


@pytest.mark.parametrize("name", ["spec.json", "gpu01/worker.json"])
def test_one_whose_record_was_deleted_in_part_is_seen_and_ended(place: Place, name: str) -> None:
    place.launch("sleep", "60")
    (place.worker().parent / name).unlink()
    (record,) = place.records()
    assert (record.gone, record.spec.run) == (True, RUN + "1")
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    assert place.records() == ()


def test_a_host_on_which_nothing_runs_has_no_run_without_a_record(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' supervisors may run on this machine: none is found."""
    (place.folder / "runs").mkdir()
    (tmp_path / "grep").write_text(
        f'#!/bin/sh\ncase "$*" in *supervise*) exit 1 ;; esac\nexec {shutil.which("grep")} "$@"\n'
    )
    (tmp_path / "grep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert place.records() == ()


def test_all_of_a_root_that_was_deleted(place: Place) -> None:
    place.launch("sleep", "60")
    shutil.rmtree(place.root)
    (record,) = place.records()
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    assert place.records() == ()


def test_a_command_that_deletes_its_record_is_told_at_once_and_watched_on(place: Place) -> None:
    folder = '"$ORCH_RUN_DIR"'
    with pytest.raises(HostError, match="was deleted or closed as soon as it began"):
        place.launch("sh", "-c", f"while [ -d {folder} ]; do rm -rf {folder}; done; sleep 60", watch=60)
    (record,) = place.records()
    assert record.gone
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    assert place.records() == ()


def test_words_of_a_command_are_not_taken_for_those_of_its_supervisor(place: Place) -> None:
    place.launch("sh", "-c", "sleep 60", "x", "supervise.py", "--person", "eve", "--run", "other", "--", "y")
    (record,) = place.records()
    assert RUN + "1" in record.ground.supervisors
    assert judge(record).cause == ""
