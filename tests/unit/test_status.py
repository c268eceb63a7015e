"""What is true of a run, from what its host has written and sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.run.causes import describe
from orchestrator.run.record import Ground, Record
from orchestrator.run.spec import RunSpec
from orchestrator.run.status import Status, judge

RUN = "20261130-0214-nightly-7f3a"
NOW = 1_000_000.0


def record(state: dict[str, Any] | None = None, *, lock: str = "held", **ground: Any) -> Record:
    full = {"now": NOW, "boot_id": "b1", "supervisors": frozenset({RUN}), "containers": frozenset({"c1"})}
    alive = {
        "state": "running",
        "boot_id": "b1",
        "container": "c1",
        "started": NOW - 600,
        "heartbeat": NOW - 5,
    }
    return Record(
        host="gpu01",
        folder=f"/home/ana/.orch/ana/mnist/runs/{RUN}",
        spec=RunSpec(RUN, ("python3", "train.py"), ("gpu01",), "ana", "mnist", "9f3c"),
        ground=Ground(**{**full, **ground}),
        state=alive if state is None else {**alive, **state},
        lock=lock,
        placed=NOW - 601,
    )


def ended(state: str, cause: dict[str, Any], code: int | None = None, number: int | None = None) -> Record:
    fields = {"state": state, "ended": NOW - 1, "exit_code": code, "signal": number, "cause": cause}
    return record(fields, lock="free", supervisors=frozenset())


def test_alive() -> None:
    assert judge(record()) == Status("running", started=NOW - 600)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (ended("succeeded", {"kind": "exit", "code": 0}, 0), ("succeeded", "", 0)),
        (ended("failed", {"kind": "exit", "code": 3}, 3), ("failed", "exit 3", 3)),
        (
            ended("failed", {"kind": "signal", "signal": 11}, None, 11),
            ("failed", "signal 11 (SIGSEGV, a crash in native code)", 139),
        ),
        (
            ended("failed", {"kind": "timeout", "seconds": 5400}, None, 9),
            ("failed", "timeout after 1h30m", 124),
        ),
        (ended("failed", {"kind": "oom"}, None, 9), ("failed", "out of memory (killed by the kernel)", 137)),
        (ended("stopped", {"kind": "stopped", "by": "bob"}, 0), ("stopped", "by bob", 143)),
        (ended("stopped", {"kind": "stopped", "by": "bob"}, None, 9), ("stopped", "by bob", 143)),
    ],
)
def test_recorded_ends(one: Record, expected: tuple[str, str, int]) -> None:
    status = judge(one)
    assert (status.state, status.cause, status.exit_status) == expected
    assert not status.inferred
    assert status.ended == NOW - 1


def test_a_recorded_end_stands_even_after_a_reboot() -> None:
    one = ended("failed", {"kind": "exit", "code": 3}, 3)
    assert judge(replace(one, ground=replace(one.ground, boot_id="b2"))).cause == "exit 3"


def test_a_child_that_lives_on_is_named() -> None:
    assert judge(replace(ended("succeeded", {"kind": "exit", "code": 0}, 0), lock="held")).cause == (
        "a child of it still runs"
    )


@pytest.mark.parametrize(
    ("ground", "lock", "cause"),
    [
        ({"boot_id": "b2"}, "free", "host rebooted"),
        ({"boot_id": "b2"}, "held", "host rebooted"),
        ({"containers": frozenset()}, "free", "container gone"),
        ({"containers": frozenset({"c2"})}, "free", "container gone"),
        ({}, "free", "supervisor gone"),
        ({"containers": None}, "free", "supervisor gone"),
        ({"supervisors": frozenset(), "now": NOW + 100}, "unknown", "supervisor gone"),
    ],
)
def test_ends_that_nobody_recorded(ground: dict[str, Any], lock: str, cause: str) -> None:
    status = judge(record(lock=lock, **ground))
    assert (status.state, status.cause, status.inferred) == ("lost", cause, True)
    assert status.exit_status is None


@pytest.mark.parametrize(
    ("began", "cause"),
    [
        ("1970-01-01T00:15:00.600000001Z", "container restarted"),
        ("1970-01-01T00:15:00.400000001Z", "supervisor gone"),
        ("1970-01-01 02:15:00.600000001 +0200 EET", "container restarted"),
        ("1970-01-01T00:15:01Z", "container restarted"),
        ("no time", "supervisor gone"),
    ],
)
def test_a_container_that_was_started_again_within_the_second(began: str, cause: str) -> None:
    one = replace(record({"started": 900.5}, lock="free"), container=f"running,{began},0,false")
    assert judge(one).cause == cause


def test_a_held_lock_outweighs_a_missing_container_and_an_old_heartbeat() -> None:
    status = judge(record({"heartbeat": NOW - 4000}, containers=frozenset(), supervisors=frozenset()))
    assert (status.state, status.cause) == ("running", "its supervisor is gone, the command still runs")


@pytest.mark.parametrize(
    ("clock", "wakes"), [({"heartbeat": NOW - 100}, {}), ({"uptime": 500.0}, {"uptime": 600.0})]
)
def test_a_supervisor_that_is_there_and_beats_no_more(clock: dict[str, Any], wakes: dict[str, Any]) -> None:
    """By the clock, and by the time since boot where both have one."""
    for lock in ("held", "unknown"):
        status = judge(record(clock, lock=lock, **wakes))
        assert (status.state, status.cause, status.inferred) == ("running", "no heartbeat for 1 min", False)
    assert judge(record({**clock, "heartbeat": NOW - 50, "uptime": 550.0}, **wakes)).cause == ""


def test_a_supervisor_that_cannot_be_seen_is_not_called_gone_while_it_beats() -> None:
    assert judge(record(supervisors=frozenset())) == Status("running", started=NOW - 600)


def test_without_a_lock_it_says_by_what_it_judges() -> None:
    assert judge(record(lock="unreadable")).cause == "judged by process"
    assert judge(record(lock="unknown", supervisors=frozenset())).cause == "judged by heartbeat"


@pytest.mark.parametrize(
    ("age", "lock", "state"),
    [(5, "free", "starting"), (29, "free", "starting"), (31, "free", "lost"), (300, "held", "starting")],
)
def test_before_the_first_word(age: float, lock: str, state: str) -> None:
    silent = replace(record(lock=lock), state={}, placed=NOW - age)
    assert judge(silent).state == state


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ({"kind": "exit", "code": 1, "exception": "ValueError: no"}, "ValueError: no"),
        ({"kind": "exit", "code": 3, "exception": "ValueError: no"}, "ValueError: no (exit 3)"),
        (
            {"kind": "signal", "signal": 6, "exception": "ValueError: no"},
            "signal 6 (SIGABRT, aborted by native code) after ValueError: no",
        ),
        (
            {"kind": "exit", "code": 1, "oom_kills": 1},
            "exit 1; the kernel killed a process of this environment for memory",
        ),
        (
            {"kind": "exit", "code": 1, "oom_kills": 1, "probable": True},
            "exit 1; the kernel killed a process of this environment for memory, perhaps of another run",
        ),
        (
            {"kind": "oom", "where": "container", "limit": 64 * 2**30},
            "out of memory: the container's 64g ran out (killed by the kernel)",
        ),
        (
            {"kind": "oom", "where": "host", "probable": True},
            "out of memory: the host's ran out (killed by the kernel), probably",
        ),
        (
            {"kind": "peer", "host": "gpu02", "how": "failed", "cause": {"kind": "signal", "signal": 9}},
            "peer gpu02 failed: signal 9 (SIGKILL, killed from outside)",
        ),
        ({"kind": "peer", "host": "gpu02", "how": "failed", "cause": {}}, "peer gpu02 failed"),
        (
            {"kind": "peer", "host": "gpu02", "how": "lost", "cause": {}, "seconds": 30.0},
            "peer gpu02 lost (no word for 30 s)",
        ),
        (
            {"kind": "peer", "host": "gpu02", "how": "lost", "own": {"kind": "exit", "code": 3}},
            "peer gpu02 lost (no word for 30 s); its own command: exit 3",
        ),
        ({"kind": "peer", "host": "gpu02", "how": "absent"}, "peer gpu02 never came"),
        ({"kind": "stopped", "by": "bob", "on": "gpu02", "why": "no"}, "by bob on gpu02: no"),
    ],
)
def test_causes_in_words(cause: dict[str, Any], words: str) -> None:
    assert describe(cause) == words


def test_a_worker_that_another_ended_has_failed_although_its_command_said_0() -> None:
    lost = {"kind": "peer", "host": "gpu02", "how": "lost", "cause": {}}
    assert judge(ended("failed", lost, 0)).exit_status == 1


def test_one_that_no_command_was_started_for_has_an_exit_status() -> None:
    absent = {"kind": "peer", "host": "gpu02", "how": "absent", "cause": {}}
    assert judge(ended("failed", absent)).exit_status == 1


AGAIN = {"at": NOW, "host": "gpu02", "cause": {"kind": "peer", "host": "gpu02", "how": "lost"}}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"state": "starting", "waiting": ["gpu02", "gpu03"]}, "waits for gpu02, gpu03"),
        ({"waiting": [], "restarts": []}, ""),
        ({"waiting": ["gpu02"], "finished": {"exit_code": 0}}, "done, waits for gpu02"),
        ({"restarts": [AGAIN]}, "restart 1 of 3 after: peer gpu02 lost (no word for 30 s)"),
        (
            {"state": "starting", "waiting": ["gpu02"], "restarts": [AGAIN, AGAIN]},
            "waits for gpu02; restart 2 of 3 after: peer gpu02 lost (no word for 30 s)",
        ),
    ],
)
def test_a_worker_among_others(state: dict[str, Any], words: str) -> None:
    one = record(state)
    status = judge(replace(one, spec=replace(one.spec, restarts=3)))
    assert (status.cause, status.live) == (words, True)


def test_an_unknown_cause_is_no_crash() -> None:
    assert describe({"kind": "gpu lost"}) == "gpu lost"
    assert describe({}) == ""
    assert describe({"kind": "signal", "signal": 99}) == "signal 99"
