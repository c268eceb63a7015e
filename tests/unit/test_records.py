"""The records and stop scripts, run by a real sh on this machine."""

from __future__ import annotations

import os
import time

import pytest

from orchestrator.run.status import judge
from orchestrator.run.stop import stop
from tests.unit.run_place import RUN, Place, place

__all__ = ["place"]  # a fixture


def test_a_live_run_is_read_and_stopped(place: Place) -> None:
    place.launch("sh", "-c", "echo hello; sleep 60")
    (record,) = place.records()
    assert record.spec.person == "ana maria"
    assert record.lock == "held"
    assert judge(record).state == "running"
    stopped = stop(place.machine, record, by="bob@desk", why="my turn", grace=5)
    assert stopped.how == "stopped"
    (record,) = place.records()
    status = judge(record)
    assert (status.state, status.cause, status.exit_status) == ("stopped", "by bob@desk: my turn", 143)
    assert record.lock == "free"
    assert stop(place.machine, record, by="bob@desk").how == "already"


def test_a_run_whose_supervisor_was_killed_still_runs_and_can_be_stopped(place: Place) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state["pid"], 9)
    (record,) = place.records()
    assert judge(record).state == "running"
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    status = judge(record)
    assert (status.state, status.cause, status.inferred) == ("stopped", "by bob; supervisor gone", True)
    assert stop(place.machine, record, by="bob", grace=5).how == "lost"


def test_stopping_what_was_lost_changes_nothing(place: Place) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state["pid"], 9)
    os.kill(record.state["child"], 9)
    assert stop(place.machine, record, by="bob", grace=5).how == "lost"
    (record,) = place.records()
    assert judge(record).state == "lost"


CLOSE = "import os, time; os.closerange(3, 256); print('closed', flush=True); time.sleep(60)"


def test_a_command_that_closed_the_lock_outlives_its_supervisor_and_is_seen(place: Place) -> None:
    place.launch("python3", "-c", CLOSE, watch=1)
    (record,) = place.records()
    os.kill(record.state["pid"], 9)
    (record,) = place.records()
    assert judge(record).state == "running"
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    assert judge(record).state == "stopped"


@pytest.mark.parametrize("who", ["pid", "child"])
def test_what_was_halted_can_be_stopped(place: Place, who: str) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state[who], 19)
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    assert (judge(record).state, record.state["signal"]) == ("stopped", 15)


def test_what_ended_long_ago_is_left_out_and_what_lives_is_not(place: Place) -> None:
    for number, argv in enumerate((("true",), ("sleep", "60"), ("sleep", "60"), ("true",)), 1):
        place.launch(*argv, run=f"{RUN}{number}", watch=1)
    living, lost = (r.state for r in place.records() if not r.state.get("ended"))
    os.kill(lost["pid"], 9)
    os.kill(lost["child"], 9)
    os.kill(living["pid"], 19)  # no heartbeat from here on
    old = time.time() - 86_400
    for file in (*place.folder.rglob("state.json"), *place.folder.rglob("worker.json")):
        if "0004" not in str(file):
            os.utime(file, (old, old))
    assert [r.spec.run[-4:] for r in place.records(since=60)] == ["0002", "0004"]


@pytest.mark.parametrize("name", ["state.json", "worker.json"])
@pytest.mark.parametrize("text", ["", "garbage\n", "[]\n", '{"a": ', '"a"\n{}\n'])
def test_a_record_that_was_written_over_is_still_listed(place: Place, name: str, text: str) -> None:
    place.launch("true", watch=20)
    (place.worker() / name).write_text(text)
    (record,) = place.records()
    assert record.spec.run == RUN + "1"
    assert judge(record).state in ("starting", "succeeded", "lost")


def test_the_log_and_progress_come_with_the_record(place: Place) -> None:
    place.launch(
        "sh", "-c", "echo first; printf 'a\\tb \\001\\n'; echo '{\"epoch\": 3}' > ../progress.jsonl", watch=20
    )
    (record,) = place.records(RUN + "1")
    assert record.tail == "first\na\tb \001"
    assert record.progress == '{"epoch": 3}'
    assert record.size == 12


def test_a_run_that_never_spoke_is_lost_when_it_cannot_begin_any_more(place: Place) -> None:
    place.launch("true", watch=20)
    (place.worker() / "state.json").unlink()
    (record,) = place.records()
    assert (judge(record).state, judge(record).cause) == ("lost", "its supervisor never started")


def test_a_run_of_a_minute_ago_that_never_spoke_is_lost(place: Place) -> None:
    place.launch("true", watch=20)
    (place.worker() / "state.json").unlink()
    (place.worker() / "launch.json").touch()
    (record,) = place.records()
    assert judge(record).state == "starting"
    old = time.time() - 60
    os.utime(place.worker() / "worker.json", (old, old))
    (record,) = place.records()
    assert (judge(record).state, judge(record).cause) == ("lost", "its supervisor never started")
