"""orch stop on machines that only pretend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.errors import Unreachable
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.some_runs import FAILED, HEAD, NOW, OLD, RUN, RUNNING, block, has_runs, of_two, project

__all__ = ["project"]  # a fixture


def stopping(answer: str) -> Any:
    def prepare(machine: FakeMachine) -> None:
        has_runs(machine)
        machine.answer("stop", out=f'answer {answer}\nstate {{"state": "stopped"}}\n')

    return prepare


def test_stop_finds_the_run_by_name_and_stops_it_where_it_is(project: Path) -> None:
    said = call(project, "stop", "nightly", "--why", "my turn", prepare=stopping("stopped"))
    assert (said.status, said.out) == (0, f"gpu01   {RUN}   stopped\n")
    script = said.machines["gpu01"].ran[-1].text
    assert f"/home/ana/.orch/ana/mnist/runs/{RUN}/gpu01" in script
    assert "my turn" in script
    assert [s.name for s in said.machines["gpu02"].ran] == ["runs"]


def test_stop_of_what_had_ended_is_no_failure(project: Path) -> None:
    said = call(project, "stop", OLD, prepare=stopping("already"))
    assert (said.status, said.out) == (0, f"gpu01   {OLD}   had ended already: stopped\n")


def test_stop_that_did_not_work_says_so(project: Path) -> None:
    said = call(project, "stop", "nightly", prepare=stopping("failed\nwhy Operation not permitted"))
    assert said.status == 1
    assert said.err == f"orch: gpu01: run {RUN} could not be stopped: Operation not permitted\n"


def test_stop_takes_the_newest_of_a_name_that_lives(project: Path) -> None:
    newer = "20261130-0300-nightly-0001"

    def prepare(machine: FakeMachine) -> None:
        records = "\n".join(
            [HEAD, block(RUN, RUNNING), block(newer, {**FAILED, "ended": NOW - 5}, lock="free")]
        )
        machine.answer_facts(runs=records if machine.host.name == "gpu01" else HEAD)
        machine.answer("stop", out='answer stopped\nstate {"state": "stopped"}\n')

    assert call(project, "stop", "nightly", prepare=prepare).out == f"gpu01   {RUN}   stopped\n"


def test_stop_ends_the_others_when_one_word_is_wrong(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        has_runs(machine)
        machine.answer("stop", out=f"answer stopped\nstate {json.dumps({**RUNNING, 'state': 'stopped'})}\n")

    said = call(project, "stop", "weekly", RUN, prepare=prepare)
    assert (said.status, said.out) == (2, f"gpu01   {RUN}   stopped\n")
    assert said.err == "orch: no run 'weekly' on gpu01, gpu02. See: orch ps -a\n"


def test_all_workers_are_stopped_and_one_that_went_with_another_was_too(project: Path) -> None:
    state = {
        "state": "stopped",
        "ended": NOW,
        "cause": {"kind": "stopped", "by": "ana@laptop", "on": "gpu01"},
    }
    plain = of_two(RUNNING, RUNNING, stop='answer stopped\nstate {"state": "stopped"}\n')
    other = of_two(RUNNING, RUNNING, stop=f"answer already\nstate {json.dumps(state)}\n")

    def prepare(machine: FakeMachine) -> None:
        (plain if machine.host.name == "gpu01" else other)(machine)

    said = call(project, "stop", RUN, prepare=prepare)
    assert (said.status, said.out) == (0, f"gpu01   {RUN}   stopped\ngpu02   {RUN}   stopped with gpu01\n")


def test_a_dead_host_does_not_keep_the_others_from_being_stopped(project: Path) -> None:
    gone = {"gpu02": Unreachable("no route to host", where="gpu02")}
    both = of_two(RUNNING, RUNNING, stop='answer stopped\nstate {"state": "stopped"}\n')
    said = call(project, "stop", RUN, prepare=both, failing=gone)
    assert (said.status, said.out) == (1, f"gpu01   {RUN}   stopped\n")
    assert said.err.startswith(
        "orch: gpu02: no route to host, so that its worker was not stopped from here. "
    )
