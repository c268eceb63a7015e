"""A worker of several: launched without waiting for the others, taken back whole, and waited for."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import HostError, UsageError
from orchestrator.hosts.local import LocalMachine
from orchestrator.inventory import Host
from orchestrator.run.launch import Order, _private, launch
from orchestrator.run.resume import taking
from orchestrator.run.spec import RunSpec
from orchestrator.run.stop import stop
from orchestrator.run.together import met, party, withdraw
from tests.unit.run_place import RUN, Place, place
from tests.until import until

__all__ = ["place"]  # a fixture

CLUSTER = {"rank": 0, "hosts": ["gpu01"]}


@pytest.mark.parametrize("unknown", [False, True])
def test_what_was_taken_back_leaves_nothing(place: Place, unknown: bool) -> None:
    order = place.order("sh", "-c", "trap '' TERM; sleep 60 & wait; wait")
    launched = launch(place.machine, order)
    withdraw(place.machine, order, unknown=unknown)
    assert not list((place.folder / "runs").iterdir())
    pid = launched.state["pid"]
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the supervisor, whose last word is said")


def test_the_newest_run_is_the_latest_again(place: Place) -> None:
    place.launch("true", watch=20)
    order = place.order("sleep", "60", run=RUN + "2")
    launch(place.machine, order)
    withdraw(place.machine, order)
    assert (place.folder / "runs" / "latest").resolve() == place.worker().parent


def test_a_worker_of_another_host_stays(place: Place) -> None:
    """Hosts may share a home."""
    order = place.order("sleep", "60")
    launch(place.machine, order)
    other = place.folder / "runs" / (RUN + "1") / "gpu02"
    other.mkdir()
    withdraw(place.machine, order)
    assert not place.worker().exists()
    assert other.exists()


def test_another_run_of_the_same_id_is_not_touched(place: Place) -> None:
    launched = place.launch("sleep", "60", asked=1.0)
    withdraw(place.machine, place.order("sleep", "60", asked=2.0))
    os.kill(launched.state["pid"], 0)
    assert (place.worker() / "state.json").exists()


def test_a_launch_that_is_still_under_way_is_taken_back_too(place: Place) -> None:
    place.launch("true", watch=20)
    order = replace(place.order("sleep", "60", run=RUN + "2"), cluster=CLUSTER)
    withdraw(place.machine, order, unknown=True)
    with pytest.raises(HostError, match="taken back before it began"):
        launch(place.machine, order)
    assert sorted(p.name for p in (place.folder / "runs").iterdir()) == [RUN + "1", "latest"]


def test_what_is_under_way_on_several_hosts_of_one_home_is_taken_back_on_each(place: Place) -> None:
    order = replace(place.order("sleep", "60"), cluster=CLUSTER)
    (place.folder / "runs").mkdir(exist_ok=True)
    machines = [place.machine, LocalMachine(replace(place.host, name="gpu02"))]
    for machine in machines:
        withdraw(machine, order, unknown=True)
    for machine in machines:
        with pytest.raises(HostError, match="taken back before it began"):
            launch(machine, order)
    assert not list((place.folder / "runs").iterdir())


def test_the_work_of_a_resume_is_given_back(place: Place) -> None:
    place.launch("sh", "-c", "echo 1 > checkpoint", watch=20)
    (old,) = place.records()
    order = replace(place.order("sleep", "60", run=RUN + "2"), takes=taking(old))
    launch(place.machine, order)
    assert not (place.worker() / "work").exists()
    withdraw(place.machine, order)
    assert (place.worker() / "work" / "checkpoint").read_text() == "1\n"
    assert not (place.worker().parent / "continued_by").exists()


def test_the_private_file_tells_a_worker_of_the_others(place: Place) -> None:
    cluster = {**CLUSTER, "token": "0" * 64}
    order = place.order("true", restarts=3, retry_on=("lost", "nccl"))
    private = json.loads("{" + _private(replace(order, cluster=cluster), "gpu01"))
    assert private["cluster"] == cluster
    assert private["restarts"] == {"max": 3, "on": ["lost", "nccl"]}
    alone = json.loads("{" + _private(place.order("true"), "gpu01"))
    assert not {"cluster", "restarts"} & alone.keys()


def test_a_worker_is_waited_for_until_it_ended_or_ran_for_a_while(place: Place) -> None:
    launched = place.launch("sh", "-c", "sleep 0.5; exit 3")
    assert met(place.machine, launched, watch=30)["exit_code"] == 3
    again = place.launch("sleep", "60", run=RUN + "2")
    until(lambda: met(place.machine, again, watch=0)["state"] == "running", "the command")


def test_a_starting_worker_is_waited_for(place: Place) -> None:
    launched = place.launch("sleep", "60")
    (record,) = place.records()
    stop(place.machine, record, by="test", grace=0)
    state = place.worker() / "state.json"
    state.write_text('{"state": "starting"}')
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(met(place.machine, launched, 0)["state"]))
    waiting.start()
    until(lambda: _sleeps("0.1"), "a pause of the script")
    assert not found
    state.write_text('{"state": "running"}')
    waiting.join(60)
    assert found == ["running"]


def _sleeps(seconds: str) -> bool:
    lines = Path("/proc").glob("[0-9]*/cmdline")
    return any(_read(line) == f"sleep\0{seconds}\0".encode() for line in lines)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_workers_that_share_a_home_go_on_together(place: Place) -> None:
    """One continued_by stands for both."""
    place.launch("sh", "-c", "echo 1 > checkpoint", watch=20)
    (old,) = place.records()
    shutil.copytree(place.worker(), place.worker().with_name("gpu02"))
    machines = [place.machine, LocalMachine(replace(place.host, name="gpu02"))]
    for machine in machines:
        takes = taking(replace(old, host=machine.host.name))
        launch(machine, replace(place.order("sleep", "60", run=RUN + "2"), takes=takes))
    for name in ("gpu01", "gpu02"):
        worker = place.folder / "runs" / (RUN + "2") / name
        assert (worker / "work" / "checkpoint").read_text() == "1\n"
    for machine in machines:
        withdraw(machine, place.order("sleep", "60", run=RUN + "2"))


def _orders(**other: object) -> tuple[Order, ...]:
    spec = RunSpec("20261130-0214-a-7f3a", ("true",), ("gpu01",), "ana", "mnist", "b1", env=("A",))
    own = replace(spec, run="20261130-0214-a-0000", hosts=("gpu02",), env=("B",), **other)  # type: ignore[arg-type]
    return Order(spec, "~/x", {"A": "1"}, watch=5), Order(own, "/scratch/x", {"B": "2"})


def test_all_workers_have_one_spec_and_each_its_place_and_values() -> None:
    together = party((Host("gpu01", "gpu01"), Host("gpu02", "gpu02")), _orders())
    first, second = together.orders
    assert together.order("gpu02") == second
    assert {order.spec.run for order in together.anew().orders} != {first.spec.run}
    assert first.spec == second.spec
    assert (first.spec.hosts, first.spec.env) == (("gpu01", "gpu02"), ("A", "B"))
    assert (first.place, second.place) == ("~/x", "/scratch/x")
    assert (second.env, first.watch) == ({"B": "2"}, 0)


def test_a_run_has_one_person_and_no_cluster_of_the_users() -> None:
    hosts = (Host("gpu01", "gpu01"), Host("gpu02", "gpu02"))
    with pytest.raises(UsageError, match="person is bob for gpu02 and ana for gpu01"):
        party(hosts, _orders(person="bob"))
    first, second = _orders()
    with pytest.raises(UsageError, match="TF_CONFIG"):
        party(hosts, (replace(first, env={"TF_CONFIG": "{}"}), second))
