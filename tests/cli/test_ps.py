"""orch ps on machines that only pretend."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.errors import Unreachable
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.some_runs import FAILED, HEAD, NOW, OLD, PEER, RUN, RUNNING, block, has_runs, of_two, project

__all__ = ["project"]  # a fixture


def test_ps_lists_the_newest_first_with_causes(project: Path) -> None:
    said = call(project, "ps", prepare=has_runs)
    assert said.status == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["RUN", "STATE", "WHERE", "WHO", "SINCE", "PROGRESS"]
    assert lines[1].split()[:6] == [RUN, "running", "gpu01", "ana", "10", "min"]
    assert lines[2].split()[:6] == [OLD, "failed", "gpu01", "ana", "1", "d"]
    assert "out of memory" in lines[2]
    assert [len(m.ran) for m in said.machines.values()] == [1, 1]


def test_ps_counts_from_when_a_lost_run_was_last_seen(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        lost = {**RUNNING, "boot_id": "another", "started": NOW - 90_000, "heartbeat": NOW - 240}
        machine.answer_facts(runs="\n".join([HEAD, block(RUN, lost, lock="free")]))

    row = call(project, "ps", "gpu01", prepare=prepare).out.splitlines()[1]
    assert row.split()[1:6] == ["lost", "gpu01", "ana", "4", "min"]


def test_ps_asks_for_the_last_day_of_the_callers_runs_unless_told_otherwise(project: Path) -> None:
    def text(*words: str) -> str:
        return call(project, "ps", "gpu01", *words, prepare=has_runs).machines["gpu01"].ran[0].text

    assert "in ana/*/runs/*/*/worker.json" in text()
    assert "-mmin -1440" in text()
    assert "-mmin" not in text("-a")
    assert "in */*/runs/*/*/worker.json" in text("-A")


def test_ps_filters_and_shapes(project: Path) -> None:
    assert call(project, "ps", "-q", prepare=has_runs).out == f"{RUN}\n{OLD}\n"
    assert call(project, "ps", "-q", "--state", "failed", prepare=has_runs).out == f"{OLD}\n"
    assert call(project, "ps", "-q", "--name", "other", prepare=has_runs).out == ""
    (running, failed) = json.loads(call(project, "ps", "--json", prepare=has_runs).out)["rows"]
    assert (running["run"], running["state"], running["exit_status"]) == (RUN, "running", None)
    assert (failed["exit_status"], failed["gpus"], failed["command"]) == (
        137,
        ["GPU-a"],
        ["python3", "train.py"],
    )


def test_ps_tells_progress_in_short_and_as_json_whole(project: Path) -> None:
    line = {"epoch": 3, "epochs": 12, "loss": 0.5, "learning_rate": 0.1, "eta_seconds": 90}

    def prepare(machine: FakeMachine) -> None:
        says = block(RUN, RUNNING).replace("progress ", f"progress {json.dumps(line)}")
        machine.answer_facts(runs="\n".join([HEAD, says, block(OLD, FAILED, lock="free")]))

    said = call(project, "ps", "gpu01", prepare=prepare)
    assert said.out.splitlines()[1].endswith("  epoch 3/12  25 %  loss 0.5  ETA 2 min")
    (running, failed) = json.loads(call(project, "ps", "gpu01", "--json", prepare=prepare).out)["rows"]
    assert (running["training"], failed["training"]) == (line, {})


def test_ps_lists_by_tag_and_tells_the_note(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        tagged = block(RUN, RUNNING).replace('"tags": []', '"tags": ["sweep", "lr=3"]')
        tagged = tagged.replace('"note": ""', '"note": "a try"')
        machine.answer_facts(runs="\n".join([HEAD, tagged, block(OLD, FAILED, lock="free")]))

    assert call(project, "ps", "gpu01", "-q", "--tag", "lr=3", prepare=prepare).out == f"{RUN}\n"
    assert call(project, "ps", "gpu01", "-q", "--tag", "lr", prepare=prepare).out == ""
    row = json.loads(call(project, "ps", "gpu01", "--json", prepare=prepare).out)["rows"][0]
    assert (row["note"], row["tags"]) == ("a try", ["sweep", "lr=3"])


def test_ps_refuses_a_state_that_no_run_has(project: Path) -> None:
    said = call(project, "ps", "--state", "runing")
    assert said.status == 2
    assert said.err.startswith("orch: no state 'runing'. There is: starting, running, ")


def test_ps_shows_the_good_hosts_beside_a_dead_one(project: Path) -> None:
    dead = {"gpu02": Unreachable("connection timed out after 10 s", where="gpu02")}
    said = call(project, "ps", prepare=has_runs, failing=dead)
    assert said.status == 1
    assert RUN in said.out
    assert said.err == "orch: gpu02: connection timed out after 10 s\n"
    only = call(project, "ps", "gpu02", failing=dead)
    assert (only.status, only.out) == (69, "")


ENDED = {**RUNNING, "state": "failed", "ended": NOW - 60, "exit_code": 143, "cause": PEER}
FIRST = {**ENDED, "exit_code": 3, "cause": {"kind": "exit", "code": 3}}


def test_ps_has_a_row_for_a_run_and_one_for_each_worker_where_that_is_asked(project: Path) -> None:
    (row,) = call(project, "ps", prepare=of_two(ENDED, FIRST)).out.splitlines()[1:]
    assert row.split()[:4] == [RUN, "failed", "gpu01,gpu02", "ana"]
    assert row.endswith("  gpu02: exit 3")
    assert call(project, "ps", "-q", prepare=of_two(ENDED, FIRST)).out == f"{RUN}\n"
    rows = call(project, "ps", "-v", prepare=of_two(ENDED, FIRST)).out.splitlines()[1:]
    assert [row.split()[1:3] for row in rows] == [["failed", "gpu02"], ["failed", "gpu01"]]
    listed = json.loads(call(project, "ps", "--json", prepare=of_two(ENDED, FIRST)).out)["rows"]
    assert [row["host"] for row in listed] == ["gpu02", "gpu01"]


def test_a_run_is_what_its_worst_worker_is(project: Path) -> None:
    lost = {**RUNNING, "boot_id": "another"}
    (row,) = call(project, "ps", prepare=of_two(RUNNING, lost)).out.splitlines()[1:]
    assert row.split()[1] == "lost"
    assert row.endswith("  gpu02: host rebooted (inferred)")
    done = {**RUNNING, "state": "succeeded", "ended": NOW - 5, "exit_code": 0, "cause": {}}
    assert call(project, "ps", prepare=of_two(done, RUNNING)).out.splitlines()[1].split()[1] == "running"
    assert call(project, "ps", prepare=of_two(done, done)).out.splitlines()[1].split()[1] == "succeeded"


def test_a_run_of_which_one_host_is_silent_is_still_listed_whole(project: Path) -> None:
    gone = {"gpu02": Unreachable("no route to host", where="gpu02")}
    said = call(project, "ps", prepare=of_two(RUNNING, RUNNING), failing=gone)
    assert (said.status, said.out.splitlines()[1].split()[1:3]) == (1, ["running", "gpu01,gpu02"])
