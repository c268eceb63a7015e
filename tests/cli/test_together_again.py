"""Runs on several hosts that run again or go on, on hosts that only pretend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Unreachable
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import Called, call
from tests.cli.hosts_together import Lab, private
from tests.cli.some_runs import FAILED, HEAD, RUN, block
from tests.cli.test_rerun import asked_of

HOSTS = ("gpu02", "gpu01")  # by rank


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def with_run(lab: Lab, *, on: tuple[str, ...] = HOSTS) -> Any:
    """Hosts that take runs; those of `on` have a worker of RUN that failed."""

    def prepare(machine: FakeMachine) -> None:
        lab.prepare(machine)
        name = machine.host.name
        record = block(RUN, FAILED, host=name, hosts=HOSTS, lock="free")
        machine.answer_facts(runs="\n".join([HEAD, record] if name in on else [HEAD]))
        machine.answer("claim", out=f"answer taken\nfrom /p/runs/r/{name}\nkb 12\n")
        machine.answer("take work", out="whole\n")
        machine.answer("send work", out="")
        machine.answer("unclaim", out="")

    return prepare


def launch_of(said: Called, host: str) -> str:
    (script,) = [s.text for s in said.machines[host].ran if s.name == "launch"]
    return script


def test_a_rerun_is_on_the_same_hosts_in_the_same_order(lab: Lab) -> None:
    first = lab.train("--name", "two", "--max-restarts", "2", hosts="gpu02,gpu01").out.split()[1]
    said = call(lab.folder, "rerun", "two", "-d", prepare=lab.prepare)
    assert said.status == 0, said.err
    assert [private(said, host)["cluster"]["rank"] for host in HOSTS] == [0, 1]
    spec = asked_of(launch_of(said, "gpu01"))
    assert (spec["hosts"], spec["parent"]["run"], spec["restarts"]) == (list(HOSTS), first, 2)


def test_a_rerun_takes_other_hosts_and_another_number_of_them(lab: Lab) -> None:
    run = lab.train("--name", "two").out.split()[1]
    said = call(lab.folder, "rerun", run, "-d", "--hosts", "gpu03,gpu01,gpu02", prepare=lab.prepare)
    assert "on gpu03, gpu01, gpu02, GPUs" in said.out
    alone = call(lab.folder, "rerun", "two", "-d", "--hosts", "gpu03", prepare=lab.prepare)
    assert "cluster" not in private(alone, "gpu03")
    group = call(lab.folder, "rerun", run, "--hosts", "lab", prepare=lab.prepare)
    assert (group.status, group.err) == (
        2,
        "orch: gpu01, gpu02, gpu03 are 3 hosts, the run had 2. Name 2: --hosts gpu01,gpu02\n",
    )


def test_each_worker_goes_on_with_its_own_work(lab: Lab) -> None:
    said = call(lab.folder, "resume", RUN, "-d", "--same-code", prepare=with_run(lab))
    assert said.status == 0, said.err
    for host in HOSTS:
        assert f'home="$old/"{host}' in launch_of(said, host)
    assert [private(said, host)["cluster"]["rank"] for host in HOSTS] == [0, 1]
    assert said.err.count(f"work    that of {RUN}\n") == 1


def test_work_goes_to_the_worker_of_the_same_rank(lab: Lab) -> None:
    hosts = ("--hosts", "gpu02,gpu03")
    said = call(lab.folder, "resume", RUN, "-d", "--same-code", *hosts, prepare=with_run(lab))
    assert said.status == 0, said.err
    assert "claim" in [s.name for s in said.machines["gpu01"].ran]
    assert "claim" not in [s.name for s in said.machines["gpu02"].ran]
    assert 'from="$place/runs/".staged-' in launch_of(said, "gpu03")
    assert f"work    that of {RUN}, copied from gpu01 to gpu03" in said.err.splitlines()


def test_where_one_host_refuses_all_work_is_given_back(lab: Lab) -> None:
    lab.says["gpu02", "launch"] = "answer busy\n"
    hosts = ("--hosts", "gpu02,gpu03")
    said = call(lab.folder, "resume", RUN, "-d", "--same-code", *hosts, prepare=with_run(lab))
    assert said.status == 75
    assert "no free GPU for the run (taken back on gpu03)" in said.err
    assert [s.name for s in said.machines["gpu01"].ran][-2:] == ["claim", "unclaim"]
    assert [s.name for s in said.machines["gpu03"].ran][-2:] == ["withdraw", "unclaim"]


def test_work_that_can_t_be_had_whole_gives_back_what_was_claimed(lab: Lab) -> None:
    def prepare(machine: FakeMachine) -> None:
        with_run(lab)(machine)
        if machine.host.name == "gpu01":
            machine.answer("claim", out="answer resumed\nwhy 20261130-0514-nightly-0001\n")

    hosts = ("--hosts", "gpu01,gpu03")
    said = call(lab.folder, "resume", RUN, "-d", "--same-code", *hosts, prepare=prepare)
    assert said.status == 1
    assert "goes on as 20261130-0514-nightly-0001 already" in said.err
    assert [s.name for s in said.machines["gpu02"].ran][-2:] == ["claim", "unclaim"]
    assert not lab.order_of("launch")


def test_a_run_goes_on_as_many_hosts_as_it_had_with_all_its_records(lab: Lab) -> None:
    one = call(lab.folder, "resume", RUN, "--hosts", "gpu01", prepare=with_run(lab))
    assert (one.status, one.err) == (
        2,
        "orch: gpu01 is 1 host, the run had 2. Name 2: --hosts gpu01,gpu02\n",
    )
    lacking = call(lab.folder, "resume", RUN, prepare=with_run(lab, on=("gpu02",)))
    assert lacking.status == 1
    assert lacking.err.startswith(f"orch: gpu01: there is no record of run {RUN}. Start it from the beginn")
    away = {"gpu01": Unreachable("no route to host", where="gpu01")}
    silent = call(lab.folder, "resume", RUN, prepare=with_run(lab), failing=away)
    assert (silent.status, silent.out) == (69, "")
