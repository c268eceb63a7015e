"""orch rerun on machines that only pretend: where the spec and the code come from, and what is said."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Unreachable
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from orchestrator.run.spec import RunSpec
from tests.cli.calling import Called, call
from tests.cli.some_runs import FAILED, HEAD, RUN, RUNNING, block

IMAGE = {"name": "tensorflow/tensorflow:2.9.3", "base": "sha256:aa", "id": "sha256:11"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / ".orchignore").write_text("cache/\nconfig/\n")
    return tmp_path


def away() -> dict[str, Exception]:
    return {"gpu01": Unreachable("connection timed out after 10 s", where="gpu01")}


def asked_of(script: str) -> dict[str, Any]:
    """The spec that a launch script writes down, as far as it is asked."""
    line = next(line for line in script.split("\n") if '"orch_env"' in line)
    spec: dict[str, Any] = json.loads(shlex.split(line)[2] + "}")
    return spec


def launching(
    env: str = "e1", image: dict[str, str] = IMAGE, packages: tuple[str, ...] = (), **more: Any
) -> Any:
    """A host that launches, and adds to the spec what it has."""

    def launch(asked: Any) -> Result:
        spec = {**asked_of(asked.text), "orch_env": env, "image": image, "packages": packages}
        lines = [
            "answer launched",
            "place /p",
            "gpus -",
            f"state {json.dumps(RUNNING)}",
            f"spec {json.dumps(spec)}",
        ]
        return Result(0, "\n".join(lines).encode(), b"")

    def prepare(machine: FakeMachine) -> None:
        machine.answer("launch", launch)

    return prepare


def first(project: Path, *words: str, **more: Any) -> str:
    """Launch a run on gpu01 from here; return its id."""
    cmd = ("--", "python3", "train.py", "--epochs=9")
    said = call(project, "train", "-d", "-q", "--hosts", "gpu01", *words, *cmd, prepare=launching(**more))
    assert said.status == 0, said.err
    return said.out.strip()


def spec_in(said: Called, host: str) -> dict[str, Any]:
    return asked_of(said.machines[host].ran[-1].text)


def test_the_same_is_asked_again_of_the_same_host_in_one_exec(project: Path) -> None:
    run = first(project, "--name", "nightly", "--tag", "sweep", "--note", "a try", "--gpus", "2")
    (project / "train.py").write_text("print(2)\n")
    said = call(project, "rerun", "nightly", "-d", prepare=launching())
    assert said.status == 0, said.err
    old = json.loads((project / "cache/orch/specs" / run).read_text().split("\n")[0])
    new = spec_in(said, "gpu01")
    assert new["run"] != run
    assert new["parent"] == {"run": run, "kind": "rerun"}
    same = ("argv", "name", "tags", "bundle", "gpus", "sub", "project", "hosts")
    assert {k: new[k] for k in same} == {k: old[k] for k in same}
    assert (new["gpus"], new["tags"], new["note"]) == ("2", ["sweep"], "")
    assert len(said.machines["gpu01"].ran) == 1
    assert said.err.splitlines()[1] == f"image   the same as {run} had"


def test_what_is_said_otherwise_is_otherwise(project: Path) -> None:
    first(project, "--name", "nightly")
    words = ("--hosts", "gpu02", "--name", "short", "--gpus", "1", "--env", "LR=3", "--tag", "t")
    said = call(project, "rerun", "nightly", "-d", *words, "--", "python3", "b.py", "-x", prepare=launching())
    new = spec_in(said, "gpu02")
    assert (new["argv"], new["name"], new["gpus"]) == (["python3", "b.py", "-x"], "short", "1")
    assert (new["env"], new["tags"], new["hosts"]) == (["LR"], ["t"], ["gpu02"])
    assert set(said.machines) == {"gpu02"}, "the old host is not even asked"


def test_with_the_old_host_gone_the_code_comes_from_here(project: Path) -> None:
    first(project, "--name", "nightly")
    (project / "train.py").unlink()
    tries: list[str] = []

    def prepare(machine: FakeMachine) -> None:
        def launch(asked: Any) -> Result:
            tries.append(machine.host.name)
            if len(tries) == 1:
                return Result(0, b"answer need-bundle\n", b"")
            done = FakeMachine()
            launching(image={**IMAGE, "id": "sha256:22"})(done)
            return done.run(asked)

        machine.answer("launch", launch)
        machine.answer("bundle", out="there\n")

    said = call(project, "rerun", "nightly", "-d", "--hosts", "gpu02", prepare=prepare, failing=away())
    assert said.status == 0, said.err
    assert tries == ["gpu02", "gpu02"]
    assert re.search(r"^code    2 files, .*\(new\)$", said.err, re.M)
    assert re.search(
        r"^image   rebuilt: another id than \S+ had, the same base and packages$", said.err, re.M
    )


def test_without_hosts_a_dead_host_is_told_with_the_way_out(project: Path) -> None:
    first(project, "--name", "nightly")
    said = call(project, "rerun", "nightly", failing=away())
    assert (said.status, said.out) == (69, "")
    assert said.err == (
        "orch: gpu01: connection timed out after 10 s. On another host: orch rerun nightly --hosts gpu02\n"
    )


def test_code_that_is_nowhere_is_told(project: Path) -> None:
    run = first(project)
    for file in (project / "cache/orch/bundles").iterdir():
        file.unlink()
    said = call(
        project, "rerun", run, "-d", "--hosts", "gpu02",
        prepare=lambda m: m.answer("launch", out="answer need-bundle\n"), failing=away(),
    )  # fmt: skip
    assert (said.status, said.out) == (69, "")
    assert said.err == (
        f"orch: the code of run {run} is not kept here, and gpu01: connection timed out after 10 s. "
        "Run it anew: orch train\n"
    )


def test_another_environment_is_told(project: Path) -> None:
    run = first(project, packages=("wandb==0.13",))
    other = {**IMAGE, "name": "tensorflow/tensorflow:2.9.1"}
    said = call(project, "rerun", run, "-d", prepare=launching(env="e2", image=other))
    lines = said.err.splitlines()
    assert lines[1] == (
        f"image   not the one that {run} had: another image "
        "(tensorflow/tensorflow:2.9.3, now tensorflow/tensorflow:2.9.1)"
    )
    assert lines[2] == f"note: {run} also had, installed by hand: wandb==0.13"


def test_values_of_variables_are_taken_from_here_or_asked_for(project: Path) -> None:
    run = first(project, "--env", "LR=0.1", "--env", "SEED=7", "--env", "MODE=a")
    said = call(project, "rerun", run, "-d", "--env", "LR=0.2", environ={"SEED": "8"}, prepare=launching())
    assert (said.status, said.machines) == (2, {})
    assert said.err == (
        f"orch: run {run} had MODE, without a value here (a record holds names alone). "
        "Give it: --env MODE=VALUE\n"
    )
    words = ("--env", "LR=0.2", "--env", "MODE=b")
    said = call(project, "rerun", run, "-d", *words, environ={"SEED": "8"}, prepare=launching())
    assert said.err.splitlines()[0] == "env     SEED as set here (a record holds names alone)"
    assert spec_in(said, "gpu01")["env"] == ["LR", "MODE", "SEED"]
    script = said.machines["gpu01"].ran[0].text
    assert all(pair in script for pair in ('"LR": "0.2"', '"SEED": "8"', '"MODE": "b"'))


def test_a_run_that_was_launched_elsewhere_is_read_from_its_host(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        machine.answer_facts(
            runs=f"{HEAD}\n{block(RUN, FAILED, lock='free')}" if machine.host.name == "gpu01" else HEAD
        )
        launching()(machine)

    said = call(project, "rerun", "nightly", "-d", prepare=prepare)
    assert spec_in(said, "gpu01")["parent"] == {"run": RUN, "kind": "rerun"}
    assert "image" not in said.err, "an older record does not say which it was"
    said = call(project, "rerun", RUN, failing=away(), prepare=lambda m: m.answer_facts(runs=HEAD))
    assert said.status == 69
    assert "It was not launched from here: only its host knows what it was." in said.err


def test_a_run_that_lives_under_the_name_is_named(project: Path) -> None:
    first(project, "--name", "nightly")
    said = call(
        project, "rerun", "nightly", prepare=lambda m: m.answer("launch", out=f"answer named\nwhy {RUN}\n")
    )
    assert said.status == 75
    assert f"run {RUN} lives already under the name nightly" in said.err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("rerun", "weekly"), "no run 'weekly'"),
        (
            ("rerun", "nightly", "--hosts", "all"),
            "gpu01, gpu02 are 2 hosts, the run had 1. Name 1: --hosts gpu01",
        ),
        (("rerun", "nightly", "--", "--epochs=3"), "no command '--epochs=3'"),
    ],
)
def test_words_that_make_no_sense(project: Path, words: tuple[str, ...], what: str) -> None:
    first(project, "--name", "nightly")
    said = call(project, *words, prepare=lambda m: m.answer_facts(runs=HEAD))
    assert said.status == 2
    assert what in said.err
    assert said.err.count("\n") == 1


def test_a_dry_run_reaches_nothing(project: Path) -> None:
    first(project, "--name", "nightly")
    said = call(project, "rerun", "nightly", "--dry-run", prepare=launching())
    assert (said.status, said.machines) == (0, {})
    assert said.out.endswith(
        '-- python3 train.py --epochs=9 >> "$ORCH_WORKER_DIR/training.log" 2>&1 < /dev/null\n'
    )


def test_the_memory_of_specs_is_trimmed_with_that_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestrator.run import seen

    monkeypatch.setattr(seen, "KEPT", 2)
    file = tmp_path / "runs.jsonl"
    runs = [f"20261130-021{n}-run-000{n}" for n in range(5)]
    for run in runs:
        seen.remember(file, RunSpec(run, ("a",), ("h",), "ana", "p", "b"), diff=f"of {run}\n")
    assert sorted(f.name for f in (tmp_path / "specs").iterdir()) == runs[-2:]
    assert seen.spec_of(file, runs[0]) is None
    found = seen.spec_of(file, runs[4])
    assert found
    assert (found[0].run, found[1]) == (runs[4], f"of {runs[4]}\n")
