"""The run that a word means, on machines that only pretend."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestrator.errors import Unreachable
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.some_runs import HEAD, RUN, RUNNING, block, has_runs, launched, project, train
from tests.unit.test_environment import CONTAINER

__all__ = ["project"]  # a fixture


def test_a_run_that_is_not_there(project: Path) -> None:
    said = call(project, "stop", "weekly", prepare=has_runs)
    assert said.status == 2
    assert said.err == "orch: no run 'weekly' on gpu01, gpu02. See: orch ps -a\n"


@pytest.mark.parametrize("verb", ["tail", "why"])
def test_what_can_be_done_where_the_host_of_a_run_is_silent(project: Path, verb: str) -> None:
    dead = {"gpu02": Unreachable("no route to host (port 22)", where="gpu02")}
    said = call(project, verb, "weekly", prepare=has_runs, failing=dead)
    assert said.status == 69
    assert said.err == (
        "orch: gpu02: no route to host (port 22). Its runs may go on: nobody knows until it answers. "
        "To begin anew: orch rerun weekly --hosts gpu01\n"
    )


def test_a_run_that_may_be_on_a_dead_host_is_not_called_missing(project: Path) -> None:
    dead = {"gpu02": Unreachable("connection refused (port 22)", where="gpu02")}
    said = call(project, "stop", "weekly", prepare=has_runs, failing=dead)
    assert (said.status, said.err) == (69, "orch: gpu02: connection refused (port 22)\n")


def test_a_run_that_is_remembered_here_and_has_no_record_any_more(project: Path) -> None:
    run = train(project, "-d", "--name", "weekly", prepare=launched()).out.split()[1]
    for words in (("why", "weekly"), ("stop", run)):
        said = call(project, *words, prepare=has_runs)
        assert said.status == 1
        gone, again = f"there is no record of run {run} any more", f"orch rerun {run}"
        assert said.err == f"orch: gpu01: {gone}. The same from its start: {again}\n"

    def lives(machine: FakeMachine) -> None:
        machine.answer_facts(runs=f"{HEAD}\nrun /home/ana/.orch/{run}\ngone ana\nend")
        machine.answer("stop", out="answer stopped\n")

    assert call(project, "stop", "weekly", prepare=lives).out == f"gpu01   {run}   stopped\n"
    (row,) = json.loads(call(project, "ps", "gpu01", "--json", prepare=lives).out)["rows"]
    assert (row["run"], row["state"], row["cause"]) == (run, "running", "its record was deleted under it")


def test_exec_in_a_run_is_where_its_command_runs(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        record = block(RUN, RUNNING).replace('"sub": ""', '"sub": "src/a b"')
        machine.answer_facts(runs=f"{HEAD}\n{record}" if machine.host.name == "gpu01" else HEAD)
        machine.answer("environment", out=f"answer there\nenvironment {CONTAINER.text()}\n")
        machine.answer(re.compile("^docker exec"), Result(3, b"02.ckpt\n", b""))

    said = call(project, "exec", "nightly", "--", "ls", "checkpoints", prepare=prepare)
    (asked,) = said.machines["gpu01"].streamed
    assert f"-w '/orch/runs/{RUN}/gpu01/work/src/a b' c0ffee env ORCH_RUN_DIR=" in str(asked)
