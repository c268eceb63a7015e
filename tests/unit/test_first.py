"""Of several workers of one run: which one its end comes from."""

from __future__ import annotations

from typing import Any

from orchestrator.run.first import first_to_die, lost_hosts
from orchestrator.run.record import Ground, Record
from orchestrator.run.spec import RunSpec

NOW = 1_796_000_000.0
HOSTS = ("gpu01", "gpu02", "gpu03")
SPEC = RunSpec("20261130-0214-a-7f3a", ("true",), HOSTS, "ana", "mnist", "b1")


def worker(host: str, state: str = "failed", ago: float = 60, **fields: Any) -> Record:
    """A worker whose end was so many seconds ago; without `ended` it lives."""
    told = {"state": state, "boot_id": "b1", "started": NOW - 600, "heartbeat": NOW, "exit_code": 1}
    if state not in ("running", "starting"):
        told["ended"] = NOW - ago
    lock = "free" if "ended" in told else "held"
    return Record(host, f"/r/{host}", SPEC, Ground(NOW, "b1"), state={**told, **fields}, lock=lock)


def peer(host: str, how: str = "failed") -> dict[str, Any]:
    return {"cause": {"kind": "peer", "host": host, "how": how, "cause": {"kind": "exit", "code": 3}}}


def died(*records: Record) -> str | None:
    first = first_to_die(records)
    return first and first.host


def test_nobody_died() -> None:
    assert died(worker("gpu01", "running"), worker("gpu02", "succeeded", exit_code=0)) is None


def test_it_is_whom_the_others_name_whatever_the_clocks_say() -> None:
    second = worker("gpu02", ago=10, cause={"kind": "exit", "code": 3})
    assert died(worker("gpu01", ago=90, **peer("gpu02")), second) == "gpu02"
    third = worker("gpu03", ago=90, cause={"kind": "exit", "code": 9})  # failed by itself because of gpu02
    assert died(worker("gpu01", ago=50, **peer("gpu02")), second, third) == "gpu02"


def test_a_host_of_which_nothing_is_recorded_leaves_those_that_name_it() -> None:
    assert died(worker("gpu01", ago=90, **peer("gpu03", "lost")), worker("gpu02", **peer("gpu03"))) == "gpu01"


def test_a_stop_began_where_the_others_say() -> None:
    first = worker("gpu01", "stopped", cause={"kind": "stopped", "by": "ana", "on": "gpu02"})
    assert died(first, worker("gpu02", "stopped", ago=10, cause={"kind": "stopped", "by": "ana"})) == "gpu02"


def test_without_a_word_of_the_others_it_is_the_oldest_end_that_is_worst() -> None:
    assert died(worker("gpu01", ago=20), worker("gpu02", ago=80)) == "gpu02"
    assert died(worker("gpu01", ago=20), worker("gpu02", "stopped", ago=80)) == "gpu01"
    lost = worker("gpu02", "running", boot_id="another", heartbeat=NOW - 500)
    assert died(worker("gpu01", ago=20), lost) == "gpu01"
    assert died(worker("gpu01", ago=20, **peer("gpu02", "lost")), lost) == "gpu02"


def test_hosts_without_which_a_run_ended() -> None:
    records = [worker("gpu01", **peer("gpu02", "lost")), worker("gpu03", **peer("gpu02"))]
    assert lost_hosts(records) == {"gpu02"}
    assert lost_hosts([worker("gpu01", "running", **peer("gpu02", "lost"))]) == set()
