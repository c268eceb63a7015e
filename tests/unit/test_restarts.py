"""Runs that are started again by themselves, with real ends, on one host and on several."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.supervised import Worker, worker
from tests.unit.workers import Workers
from tests.until import until

__all__ = ["worker"]  # a fixture

NCCL = "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error"
RAISES = "echo 'Traceback (most recent call last):'; echo '  x'; echo 'ValueError: no'; exit 1"
# The first attempt fails as is said, the next one goes well.
ONCE = 'echo "try $ORCH_ATTEMPT"; [ "$ORCH_ATTEMPT" -gt 0 ] || {{ {}; }}; echo well'


@pytest.mark.parametrize(
    ("fails", "on"),
    [
        (f"echo '{NCCL}'; exit 1", None),
        ("echo 'NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.'; exit 134", None),
        ("exit 3", ["exit"]),
        ("kill -KILL $$", ["signal"]),
        (RAISES, ["exception"]),
    ],
)
def test_a_run_of_one_host_is_started_again(worker: Worker, fails: str, on: list[str] | None) -> None:
    worker.more = {"restarts": {"max": 2, "delay": 0.1, **({"on": on} if on else {})}}
    worker.start("sh", "-c", ONCE.format(fails))
    state = worker.end()
    assert (state["state"], state["attempt"], len(state["restarts"])) == ("succeeded", 1, 1)
    assert "\norch: restart 1 of 2 after: " in worker.log
    assert worker.log.endswith("try 1\nwell\n")
    assert not (worker.folder / "launch.json").exists()


@pytest.mark.parametrize(
    "fails",
    [
        "exit 3",
        "kill -KILL $$",
        RAISES,
    ],
)
def test_what_is_no_fault_of_a_machine_is_not_tried_again(worker: Worker, fails: str) -> None:
    worker.more = {"restarts": {"max": 2, "delay": 0.1}}
    worker.start("sh", "-c", fails)
    state = worker.end()
    assert (state["state"], state["attempt"], state["restarts"]) == ("failed", 0, [])


def test_a_run_is_not_started_more_often_than_asked(worker: Worker) -> None:
    worker.more = {"restarts": {"max": 2, "delay": 0.05, "on": ["exit"]}}
    worker.start("sh", "-c", "echo $ORCH_ATTEMPT; exit 3")
    state = worker.end()
    assert (state["state"], state["exit_code"], len(state["restarts"])) == ("failed", 3, 2)
    assert [line for line in worker.log.splitlines() if line.isdigit()] == ["0", "1", "2"]


def test_what_the_log_said_of_an_earlier_attempt_counts_no_more(worker: Worker) -> None:
    worker.more = {"restarts": {"max": 2, "delay": 0.05}}
    worker.start("sh", "-c", f"[ $ORCH_ATTEMPT = 0 ] && echo '{NCCL}'; exit 3")
    assert len(worker.end()["restarts"]) == 1


def test_what_is_left_of_an_attempt_is_ended_before_the_next(worker: Worker) -> None:
    worker.more = {"restarts": {"max": 1, "delay": 0.05, "on": ["exit"]}}
    left = "setsid sleep 60 & echo $! > ../pid; exit 3"
    check = "grep -q . /proc/$(cat ../pid)/cmdline 2>/dev/null && exit 9"
    worker.start("sh", "-c", f"if [ $ORCH_ATTEMPT = 0 ]; then {left}; fi; {check}; exit 0")
    assert worker.end()["state"] == "succeeded"


def test_a_stop_ends_the_wait_for_a_restart(worker: Worker) -> None:
    worker.more = {"restarts": {"max": 1, "delay": 100, "on": ["exit"]}}
    worker.start("sh", "-c", "exit 3")
    until(lambda: worker.state.get("restarts"))
    assert worker.state["state"] == "starting"
    os.kill(worker.state["pid"], signal.SIGTERM)
    assert worker.end()["state"] == "stopped"


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    workers = Workers(tmp_path, 2, {"max": 3}, rejoin=20.0)
    yield workers
    workers.kill()


ON = 'echo "try $ORCH_ATTEMPT"; touch ../up$ORCH_ATTEMPT; while [ ! -e ../end ]; do sleep 0.05; done'


def up(workers: Workers, attempt: int) -> None:
    for member in workers.members:
        until((member.folder / f"up{attempt}").exists, f"{member.folder.name}: {member.state} {member.log}")
        until(lambda: member.state.get("child") and member.state["attempt"] == attempt)


def finish(workers: Workers) -> None:
    for member in workers.members:
        (member.folder / "end").touch()
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2
    assert not workers.left()
    assert not list(workers[0].folder.parent.glob("*/launch.json"))


def test_all_workers_are_started_again(pair: Workers) -> None:
    fails = f"if [ $ORCH_ATTEMPT = 0 ]; then sleep 0.3; echo '{NCCL}'; exit 1; fi; " + ON
    pair.start(ON, fails)
    up(pair, 1)
    for member in pair.members:
        state = member.state
        assert (state["state"], state["attempt"], len(state["restarts"])) == ("running", 1, 1)
        assert state["restarts"][0]["host"] == "gpu02"
    assert "orch: restart 1 of 3 after: peer gpu02 failed: exit 1" in pair[0].log
    finish(pair)


def test_a_worker_that_was_done_is_started_again_with_the_others(pair: Workers) -> None:
    fail = pair[0].folder / "fail"
    waits = f"until [ -e {shlex.quote(str(fail))} ]; do sleep 0.05; done"
    pair.start(f"[ $ORCH_ATTEMPT = 1 ] || {{ {waits}; echo '{NCCL}'; exit 1; }}; {ON}", ON)
    (pair[1].folder / "end").touch()
    until(lambda: pair[1].state.get("finished"))
    assert pair[1].state["attempt"] == 0
    fail.touch()
    up(pair, 1)
    finish(pair)


@pytest.mark.parametrize("dead", [0, 1])
def test_a_host_that_comes_back_goes_on_with_the_others(pair: Workers, dead: int) -> None:
    pair.start(ON)
    up(pair, 0)
    pair[dead].kill_all()
    until(lambda: pair[1 - dead].state.get("restarts"))
    assert pair[1 - dead].state["restarts"][0]["cause"]["how"] == "lost"
    assert (pair[dead].folder / "launch.json").stat().st_mode & 0o777 == 0o644  # as the test wrote it
    pair[dead].again("sh", "-c", ON)
    up(pair, 1)
    assert pair[dead].state["restarts"][0]["cause"] == {"kind": "lost", "how": "container restarted"}
    assert [member.state["attempt"] for member in pair.members] == [1, 1]
    finish(pair)


@pytest.mark.parametrize("dead", [0, 1])
def test_a_host_that_comes_back_at_once_is_noticed(tmp_path: Path, dead: int) -> None:
    workers = Workers(tmp_path, 2, {"max": 3}, lost=60.0)
    try:
        workers.start(ON)
        up(workers, 0)
        workers[dead].kill_all()
        workers[dead].again("sh", "-c", ON)
        up(workers, 1)
        finish(workers)
    finally:
        workers.kill()


@pytest.mark.parametrize("dead", [0, 1])
def test_a_host_that_never_comes_back_is_lost(tmp_path: Path, dead: int) -> None:
    workers = Workers(tmp_path, 2, {"max": 3}, rejoin=0.5)
    try:
        workers.start(ON)
        up(workers, 0)
        workers[dead].kill_all()
        state = workers[1 - dead].end()
        cause = state["cause"]
        assert (state["state"], cause["kind"], cause["how"]) == ("failed", "peer", "lost")
    finally:
        workers.kill()


def test_a_stop_during_the_wait_for_a_restart_stops_all(tmp_path: Path) -> None:
    workers = Workers(tmp_path, 2, {"max": 3, "delay": 100, "on": ["exit"]})
    try:
        workers.start("exit 3")
        for member in workers.members:
            until(lambda: member.state.get("restarts"))
        workers[1].stop(by="ana")
        assert [state["state"] for state in workers.ends()] == ["stopped"] * 2
    finally:
        workers.kill()


def test_who_was_done_when_another_failed_has_not_succeeded(tmp_path: Path) -> None:
    """The next attempt never begins: one is stopped, or never comes back."""
    for how, delay in (("stopped", 100.0), ("failed", 1.0)):
        workers = Workers(tmp_path / how, 2, {"max": 3, "delay": delay}, rejoin=0.5)
        fails = f"while [ ! -e ../go ]; do sleep 0.02; done; echo '{NCCL}'; exit 1"
        try:
            workers.start("true", fails)
            until(lambda: workers[0].state.get("finished"))
            (workers[1].folder / "go").touch()
            for member in workers.members:
                until(lambda: member.state.get("restarts"))
            if how == "stopped":
                workers[1].stop(by="ana")
            else:
                workers[1].kill_supervisor()
            state = workers[0].end()
            assert state["state"] == how
            assert how == "stopped" or (state["cause"]["host"], state["cause"]["how"]) == ("gpu02", "failed")
        finally:
            workers.kill()


def test_one_that_may_not_be_started_again_is_not_revived(worker: Worker) -> None:
    worker.more = {"restarts": {"max": 1, "on": ["exit"]}}
    worker.start("sh", "-c", "echo up; sleep 60")
    worker.running()
    before = worker.state
    os.kill(before["pid"], signal.SIGKILL)
    os.killpg(before["child"], signal.SIGKILL)
    assert worker.process
    worker.process.wait()
    worker.start("echo", "again")
    worker.end()
    assert worker.state == before
    assert "again" not in worker.log
    assert not (worker.folder / "launch.json").exists()


def went_on(folder: Path) -> None:
    (folder.parent / "continued_by").write_text("another\ngpu02\n")


def late(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "uptime": state["uptime"] - 601}))


def late_after_a_boot(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "boot_seen": "other", "heartbeat": 1.5}))


LONG_UP = float(Path("/proc/uptime").read_text().split()[0]) > 600
NEWLY_UP = pytest.mark.skipif(not LONG_UP, reason="this machine was booted within ten minutes")


@pytest.mark.parametrize("how", [went_on, late, pytest.param(late_after_a_boot, marks=NEWLY_UP)])
def test_one_that_others_have_given_up_is_not_revived(worker: Worker, how: Any) -> None:
    worker.more = {"restarts": {"max": 1}}
    worker.start("sh", "-c", "echo up; sleep 60")
    worker.running()
    os.kill(worker.state["pid"], signal.SIGKILL)
    os.killpg(worker.state["child"], signal.SIGKILL)
    assert worker.process
    worker.process.wait()
    how(worker.folder)
    worker.start("echo", "again")
    worker.end()
    assert "again" not in worker.log
    assert not (worker.folder / "launch.json").exists()


def test_the_waits_between_restarts_double(worker: Worker) -> None:
    worker.more = {"restarts": {"max": 3, "delay": 0.2, "on": ["exit"]}}
    worker.start("sh", "-c", "exit 3")
    times = [entry["at"] for entry in worker.end()["restarts"]]
    assert times[1] - times[0] >= 0.2
    assert times[2] - times[1] >= 0.4
    assert json.loads((worker.folder / "state.json").read_text())["state"] == "failed"
