"""orch down, and a change that meets another, on machines that only pretend: words and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.test_deploy import BASE, DOCKER, PLACE, answers, names, project
from tests.unit.test_environment import CONTAINER

__all__ = ["project"]  # a fixture


def deployed(running: bool = True, **labels: str) -> str:
    known = {"orch.person": "ana", "orch.project": "mnist", "orch.folder": "x:/y", **labels}
    made: dict[str, Any] = {"id": "c0ffee", "name": "/orch-ana-mnist", "image": "sha256:dd", "labels": known}
    return "container\t" + json.dumps({**made, "state": {"Running": running}, "bindings": {}})


def test_down_removes_the_container(project: Path) -> None:
    prepare = answers(f"{DOCKER}\n{deployed()}", f"owner\t1001\nenvironment\t{CONTAINER.text()}")
    called = call(project, "down", "--yes", "gpu01", prepare=prepare)
    assert called.status == 0
    assert called.out == f"gpu01   down; runs and data are in {PLACE}\n"
    assert names(called.machines["gpu01"]) == ["docker+place", "docker+place", "down"]


def test_a_down_with_a_purge_says_what_is_next_at_its_end(project: Path) -> None:
    place = f"owner\t1001\nenvironment\t{CONTAINER.text()}"

    def prepare(machine: FakeMachine) -> None:
        answers(f"{DOCKER}\n{deployed()}", place)(machine)
        machine.answer("purge", out="runs 4\nwhole 4\ngone /home/ana/.orch/ana/audit.log\n")

    called = call(project, "down", "--purge", "--yes", "gpu01", prepare=prepare)
    assert called.status == 0, called.err
    assert called.out.splitlines()[-1].startswith("gpu01   purged")
    assert called.err.index("gpu01   delete ") < called.err.index("next:   orch image prune gpu01")


def test_down_refuses_while_a_run_lives(project: Path) -> None:
    place = "owner\t1001\nlive\t20261130-0214-nightly-7f3a\t" + json.dumps({"container": "c0ffee"})
    called = call(project, "down", "--yes", "gpu01", prepare=answers(f"{DOCKER}\n{deployed()}", place))
    assert called.status == 75
    assert "20261130-0214-nightly-7f3a" in called.err
    assert "--replace" in called.err
    assert names(called.machines["gpu01"]) == ["docker+place"]


def one_then_other(*each: Callable[[FakeMachine], None]) -> Callable[[FakeMachine], None]:
    """Answer the questions for facts in turn: the host has changed meanwhile."""

    def prepare(machine: FakeMachine) -> None:
        each[0](machine)
        left = list(each)

        def reply(asked: Any) -> Result:
            now = FakeMachine(machine.host)
            left.pop(0)(now)
            return now.run(asked)

        machine.answer(re.compile(r"orch-fact-[0-9a-f]+"), reply)

    return prepare


LIVES = "owner\t1001\nlive\t20261130-0214-nightly-7f3a\t" + json.dumps({"container": "c0ffee"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            answers(f"{DOCKER}\n{BASE}"),
            answers(f"{DOCKER}\n{BASE}\n{deployed()}"),
        ),  # another deploy came first
        (
            answers(f"{DOCKER}\n{BASE}\n{deployed()}"),
            answers(f"{DOCKER}\n{BASE}\n{deployed()}", LIVES),
        ),  # a run began
    ],
)
def test_what_changed_while_a_person_thought_is_not_deployed_over(
    project: Path, before: Callable[[FakeMachine], None], after: Callable[[FakeMachine], None]
) -> None:
    called = call(project, "deploy", "--yes", "gpu01", prepare=one_then_other(before, after))
    assert called.status == 75
    assert called.err.endswith(
        "orch: gpu01: what is there has changed since the plan was made. Deploy again.\n"
    )
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"] * 2


def test_a_run_that_began_while_a_person_thought_is_not_ended_by_down(project: Path) -> None:
    facts = f"{DOCKER}\n{deployed()}"
    called = call(
        project, "down", "--yes", "gpu01", prepare=one_then_other(answers(facts), answers(facts, LIVES))
    )
    assert (called.status, names(called.machines["gpu01"])) == (75, ["docker+place"] * 2)
    assert "20261130-0214-nightly-7f3a has begun meanwhile" in called.err


@pytest.mark.parametrize("verb", ["deploy", "down"])
def test_one_change_at_a_time(project: Path, verb: str) -> None:
    def prepare(machine: FakeMachine) -> None:
        answers(f"{DOCKER}\n{BASE}\n{deployed()}")(machine)
        machine.answer("turn", out="taken deploy by bob@desk (begun 3 s ago)\n")

    called = call(project, verb, "--yes", "gpu01", prepare=prepare)
    assert called.status == 75
    assert "a deploy by bob@desk (begun 3 s ago) is going on. Try again when it is done." in called.err


def test_down_leaves_what_is_somebody_elses(project: Path) -> None:
    theirs = deployed(**{"orch.person": "an", "orch.project": "a-mnist"})
    called = call(project, "down", "--yes", "gpu01", prepare=answers(f"{DOCKER}\n{theirs}"))
    assert called.status == 1
    assert "'a-mnist' of 'an'" in called.err


def test_down_of_nothing_is_no_failure(project: Path) -> None:
    called = call(project, "down", "gpu01", prepare=answers())
    assert (called.status, called.out) == (0, "gpu01   nothing is deployed here\n")
