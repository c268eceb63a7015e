"""What the chief concludes from what it hears, without a clock or a socket."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.run.cluster import endpoint, tf_config

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates"))
from supervisor.cluster import Cluster
from supervisor.council import Council
from supervisor.restarts import Restarts

FAILED = {"state": "failed", "cause": {"kind": "exit", "code": 1}}
DONE = {"state": "succeeded", "cause": {}}


def council(nodes: int = 3, restarts: dict[str, Any] | None = None) -> Council:
    """Return a council that began at 0 s and waits 60 s."""
    hosts = [f"gpu{n:02}" for n in range(1, nodes + 1)]
    facts = {"rank": 0, "hosts": hosts, "addresses": hosts, "port": 1, "link": 2, "token": "00"}
    return Council(Cluster(facts), 0.0, Restarts(restarts))


def going(nodes: int = 3, restarts: dict[str, Any] | None = None) -> Council:
    """Return one of which all workers came at 1 s."""
    found = council(nodes, restarts)
    for rank in range(nodes):
        if rank:
            found.comes(rank, 1.0)
        stands(found, rank, 1.0)
    assert found.consider(1.0)["is"] == "go"
    return found


def stands(found: Council, rank: int, now: float, **more: Any) -> None:
    found.stands(rank, {"attempt": 0, "port": 100 + rank, **more}, now)


def test_it_waits_for_a_port_of_each() -> None:
    found = council()
    stands(found, 0, 0.0)
    found.comes(1, 1.0)
    assert found.consider(1.0) == {"is": "waiting", "attempt": 0, "for": ["gpu02", "gpu03"]}
    stands(found, 1, 1.0)
    found.comes(2, 2.0)
    stands(found, 2, 2.0)
    word = found.consider(2.0)
    assert (word["is"], word["ports"]) == ("go", [100, 101, 102])


def test_one_whose_link_broke_again_has_not_come() -> None:
    found = council(2)
    stands(found, 0, 0.0)
    found.comes(1, 1.0)
    stands(found, 1, 1.0)
    found.goes(1)
    assert found.consider(2.0)["for"] == ["gpu02"]


def test_who_is_missing_at_the_end_of_the_wait() -> None:
    found = council()
    stands(found, 0, 0.0)
    found.comes(1, 1.0)
    stands(found, 1, 1.0)
    assert found.consider(59.9)["is"] == "waiting"
    word = found.consider(60.0)
    assert (word["is"], word["how"], word["host"]) == ("verdict", "absent", "gpu03")
    assert word["for"] == ["gpu01", "gpu02"]


def test_silence_of_half_a_minute_is_a_loss() -> None:
    found = going()
    stands(found, 1, 20.0)
    stands(found, 2, 10.0)
    assert found.consider(39.9)["is"] == "go"
    word = found.consider(40.0)
    assert (word["how"], word["host"]) == ("lost", "gpu03")


def test_of_several_that_are_silent_the_first_is_it() -> None:
    found = going()
    stands(found, 1, 3.0)
    stands(found, 2, 2.0)
    assert found.consider(60.0)["host"] == "gpu03"


def test_a_failure_waits_for_a_word_of_the_others() -> None:
    found = going()
    stands(found, 1, 5.0, end=FAILED)
    word = found.consider(5.0)
    assert (word["is"], word["asks"]) == ("go", 1)
    stands(found, 2, 5.1)
    word = found.consider(5.1)
    assert (word["is"], word["how"], word["host"]) == ("verdict", "failed", "gpu02")
    assert word["cause"] == FAILED["cause"]


def test_of_two_failures_the_first_to_be_heard_is_it() -> None:
    found = going()
    stands(found, 2, 5.0, end=FAILED)
    stands(found, 1, 5.1, end=FAILED)
    assert found.consider(5.1)["host"] == "gpu03"


def test_a_failure_while_another_is_silent_is_the_silent_ones() -> None:
    found = going()
    stands(found, 2, 4.0)
    stands(found, 1, 5.0, end=FAILED)
    assert found.consider(33.0)["is"] == "go"
    stands(found, 1, 33.0, end=FAILED)
    word = found.consider(34.0)
    assert (word["how"], word["host"]) == ("lost", "gpu03")


def test_one_that_has_come_to_a_good_end_may_be_silent() -> None:
    found = going()
    stands(found, 1, 2.0, end=DONE)
    stands(found, 2, 90.0)
    word = found.consider(90.0)
    assert (word["is"], word["for"]) == ("go", ["gpu01", "gpu03"])


def test_nobody_is_waited_for_when_all_have_ended() -> None:
    found = going(2)
    stands(found, 0, 2.0, end=DONE)
    stands(found, 1, 2.0, end=DONE, left=True)
    assert found.consider(2.0)["for"] == []


@pytest.mark.parametrize("begun", [True, False])
def test_a_stop_is_the_end_of_all(begun: bool) -> None:
    found = going() if begun else council()
    found.comes(1, 2.0)
    stands(found, 1, 2.0, stop={"kind": "stopped", "by": "ana"}, end={"state": "stopped", "cause": {}})
    word = found.consider(2.0)
    assert (word["how"], word["host"], word["cause"]["by"]) == ("stopped", "gpu02", "ana")


def test_a_failure_before_the_start_is_the_end_of_all() -> None:
    found = council()
    found.comes(1, 2.0)
    found.stands(1, {"attempt": 0, "end": FAILED}, 2.0)
    word = found.consider(2.0)
    assert (word["how"], word["host"]) == ("failed", "gpu02")
    assert word["for"] == ["gpu02"]  # the others have nothing that runs


def test_after_the_end_those_are_waited_for_that_still_run_something() -> None:
    found = going()
    stands(found, 1, 5.0, end=FAILED, idle=True)
    stands(found, 2, 6.0)
    assert found.consider(6.0)["for"] == ["gpu01", "gpu03"]
    assert found.consider(36.0)["for"] == ["gpu01"]  # the third has fallen silent


def again_after(kind: str) -> Council:
    """Return one that may begin again once after an end of that class, of which a worker has failed."""
    found = going(2, {"max": 1, "on": [kind], "delay": 5.0})
    stands(found, 1, 10.0, end={**FAILED, "class": "nccl"})
    return found


def test_all_begin_again_when_nothing_runs_any_more() -> None:
    found = again_after("nccl")
    assert found.consider(10.0)["again"] == 5.0
    stands(found, 1, 11.0, end=FAILED, idle=True)
    assert found.consider(30.0)["for"] == ["gpu01"]
    stands(found, 0, 31.0, idle=True)
    stands(found, 1, 31.0, end=FAILED, idle=True)
    assert found.consider(31.0)["is"] == "verdict"
    assert found.consider(35.9)["is"] == "verdict"
    assert found.consider(36.0) == {"is": "waiting", "attempt": 1, "for": ["gpu01", "gpu02"]}


def test_after_another_class_of_end_there_is_no_other_attempt() -> None:
    assert again_after("lost").consider(10.0)["again"] is None


def test_a_supervisor_that_was_started_again_has_lost_its_command() -> None:
    found = going(2, {"max": 1})
    found.comes(1, 3.0)
    found.stands(1, {}, 3.0)
    word = found.consider(3.0)
    assert (word["how"], word["host"], word["again"]) == ("lost", "gpu02", 5.0)


def test_a_stop_ends_the_wait_for_the_next_attempt() -> None:
    found = again_after("nccl")
    found.consider(10.0)
    stands(found, 1, 11.0, end=FAILED, idle=True, stop={"kind": "stopped", "by": "ana"})
    word = found.consider(11.0)
    assert (word["how"], word["again"]) == ("stopped", None)


@pytest.mark.parametrize("addresses", [["10.0.0.1", "10.0.0.2"], ["fd00::1", "10.0.0.2"]])
def test_what_a_command_is_told_is_what_a_launch_shows(addresses: list[str]) -> None:
    facts = {
        "rank": 1,
        "hosts": ["gpu01", "gpu02"],
        "addresses": addresses,
        "port": 1,
        "link": 2,
        "token": "",
    }
    cluster = Cluster(facts)
    workers = cluster.workers([20001, 20002])
    assert workers == [
        endpoint(address, port) for address, port in zip(addresses, (20001, 20002), strict=True)
    ]
    assert cluster.environment(workers, 0)["TF_CONFIG"] == tf_config(workers, 1)
