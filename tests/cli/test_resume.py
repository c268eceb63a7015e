"""orch resume on machines that only pretend: what is asked of them, what is refused, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import Called, call
from tests.cli.some_runs import FAILED, HEAD, RUN, RUNNING, block
from tests.cli.test_rerun import away, launching, project, spec_in

__all__ = ["project"]

AFTER = "20261130-0514-nightly-0001"


def having(text: str, *, on: str = "", there: str = "", **more: Any) -> Any:
    """Hosts of which gpu01 has a run; it went on as AFTER on the host `on`, which has `there` of it."""
    record = f"{text.removesuffix('end')}continued {AFTER}\036{on}\nend" if on else text

    def prepare(machine: FakeMachine) -> None:
        runs = record if machine.host.name == "gpu01" else there
        machine.answer_facts(runs="\n".join([HEAD, *([runs] if runs else [])]))
        launching(**more)(machine)

    return prepare


FAILED_RUN = block(RUN, {**FAILED, "cause": {"kind": "exit", "code": 1}}, lock="free")
LIVING = block(RUN, RUNNING)


def resumed(project: Path, *words: str, **more: Any) -> Called:
    return call(project, "resume", "nightly", "-d", *words, **more)


def test_the_work_is_taken_over_by_one_exec_with_the_folder_as_it_is_now(project: Path) -> None:
    said = resumed(project, "--tag", "t", prepare=having(FAILED_RUN))
    assert said.status == 0, said.err
    new = spec_in(said, "gpu01")
    assert (new["parent"], new["name"], new["tags"]) == ({"run": RUN, "kind": "resume"}, "nightly", ["t"])
    assert new["argv"] == ["python3", "train.py"]
    assert new["bundle"] != "9f3c"
    assert [s.name for s in said.machines["gpu01"].ran] == ["runs", "launch"]
    assert f"work    that of {RUN}" in said.err.splitlines()
    assert said.err.splitlines()[-1].startswith("next:   orch tail nightly")


def test_the_code_that_it_had_may_be_taken(project: Path) -> None:
    said = resumed(project, "--same-code", prepare=having(FAILED_RUN))
    assert spec_in(said, "gpu01")["bundle"] == "9f3c"


def test_what_met_is_told(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        having(FAILED_RUN)(machine)

        def launch(asked: Any) -> Result:
            done = FakeMachine()
            launching()(done)
            said = done.run(asked)
            return Result(0, said.out + b"\nlaid kept a b.txt\x1ereplaced c.py", b"")

        machine.answer("launch", launch)

    said = resumed(project, prepare=prepare).err.splitlines()
    assert "note: kept a b.txt: the run made it (the folder's is not taken)" in said
    assert f"note: c.py is the folder's; the run had changed it, its own is c.py.{RUN}" in said


@pytest.mark.parametrize(
    ("record", "status", "what"),
    [
        (LIVING, 75, f"orch: gpu01: run {RUN} still runs. End it first: orch stop {RUN}\n"),
        (
            FAILED_RUN.replace("lock free", "lock held"),
            75,
            f"orch: gpu01: run {RUN} still runs. End it first",
        ),
        (
            FAILED_RUN.replace('"project": "mnist"', '"project": "other"'),
            2,
            f"orch: run {RUN} is of project other, this folder is mnist. Call it in that project's folder",
        ),
    ],
)
def test_runs_that_cannot_go_on(project: Path, record: str, status: int, what: str) -> None:
    said = resumed(project, prepare=having(record))
    assert (said.status, said.out) == (status, "")
    assert said.err.startswith(what)
    assert said.err.count("\n") == 1


def test_somebody_elses_run_does_not_go_on_as_mine(project: Path) -> None:
    record = FAILED_RUN.replace('"person": "ana"', '"person": "bob"')
    said = call(project, "resume", RUN, prepare=having(record))
    assert said.status == 1
    assert said.err == (
        f"orch: gpu01: run {RUN} is bob's, and so are its files. "
        f"Start it from the beginning: orch rerun {RUN}\n"
    )


def test_a_host_that_is_away_is_told_with_what_can_be_done(project: Path) -> None:
    said = resumed(project, failing=away(), prepare=having(""))
    assert said.status == 69
    assert said.err == (
        "orch: gpu01: connection timed out after 10 s. The run's files are there: try again when it is back, "
        "or start from the beginning elsewhere: orch rerun nightly --hosts gpu02\n"
    )


def test_an_only_host_that_is_away_is_told_without_another_to_go_to(project: Path) -> None:
    (project / "hosts.ini").write_text("gpu01\n[all:vars]\nperson=ana\nproject=mnist\n")
    said = resumed(project, failing=away(), prepare=having(""))
    assert (said.status, said.out) == (69, "")
    assert said.err == (
        "orch: gpu01: connection timed out after 10 s. The run's files are there: try again when it is back\n"
    )


def test_without_a_word_the_newest_run_is_offered_elsewhere(project: Path) -> None:
    said = call(project, "resume", failing=away(), prepare=having(""))
    assert said.status == 69
    assert said.err.endswith("or start from the beginning elsewhere: orch rerun latest --hosts gpu02\n")


def test_a_run_that_went_on_on_another_host_is_named(project: Path) -> None:
    began = block(AFTER, RUNNING, host="gpu02")
    said = call(project, "resume", RUN, "-d", prepare=having(FAILED_RUN, on="gpu02", there=began))
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        f"orch: gpu01: run {RUN} goes on as {AFTER} already. Resume that one: orch resume {AFTER}; "
        "or go on from the files on gpu01 all the same: --again\n"
    )
    again = call(project, "resume", RUN, "-d", "--again", prepare=having(FAILED_RUN, on="gpu02", there=began))
    assert again.status == 0, again.err
    never_began = call(project, "resume", RUN, "-d", prepare=having(FAILED_RUN, on="gpu02"))
    assert never_began.status == 0, never_began.err
    assert f'[ "$went" != {AFTER} ]' in never_began.machines["gpu01"].ran[-1].text


def test_a_launch_that_is_refused_elsewhere_gives_the_run_back(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        having(FAILED_RUN)(machine)
        machine.answer("claim", out="answer taken\nfrom /p/runs/r/gpu01\nkb 12\n")
        machine.answer("take work", out="whole\n")
        machine.answer("send work", out="")
        machine.answer("launch", out="answer busy\n")
        machine.answer("unclaim", out="")

    said = resumed(project, "--same-code", "--hosts", "gpu02", prepare=prepare)
    assert said.status == 75, said.err
    assert [s.name for s in said.machines["gpu01"].ran] == ["runs", "claim", "unclaim"]
    assert [s.name for s in said.machines["gpu02"].ran] == ["runs", "launch", "unclaim"]
