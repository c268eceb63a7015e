"""Records of two runs, one that lives and one that failed, and the answers of hosts that have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.hosts.fake import FakeMachine
from orchestrator.run.spec import RunSpec
from tests.cli.calling import Called, call

RUN, OLD = "20261130-0214-nightly-7f3a", "20261129-0214-nightly-02be"
NOW = 1_796_000_000


def block(
    run: str,
    state: dict[str, Any],
    *,
    lock: str = "held",
    tail: str = "",
    host: str = "gpu01",
    hosts: tuple[str, ...] = (),
) -> str:
    spec = RunSpec(run, ("python3", "train.py"), hosts or (host,), "ana", "mnist", "9f3c", name="nightly")
    worker = {"gpus": ["GPU-a"], "boot_id": "b1"}
    lines = [
        f"run /home/ana/.orch/ana/mnist/runs/{run}",
        f"spec {spec.text()}",
        f"host {host}",
        f"worker {json.dumps(worker)}",
        f"placed {NOW - 700}",
        "size 10",
        f"state {json.dumps(state)}",
        f"lock {lock}",
        "progress ",
        "tail " + tail.replace("\n", "\036"),
        "end",
    ]
    return "\n".join(lines)


RUNNING = {"state": "running", "boot_id": "b1", "container": "c1", "started": NOW - 600, "heartbeat": NOW}
FAILED = {
    **RUNNING,
    "started": NOW - 90_000,
    "state": "failed",
    "ended": NOW - 86_400,
    "exit_code": None,
    "signal": 9,
    "cause": {"kind": "oom"},
}
HEAD = f"now {NOW}\nboot b1\nflock yes\nsupervisors {RUN} \ncontainers c1 "


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "data.bin").write_text("x")
    (tmp_path / ".orchignore").write_text("data.bin\ncache/\nconfig/\n")
    return tmp_path


def has_runs(machine: FakeMachine) -> None:
    records = "\n".join([HEAD, block(RUN, RUNNING, tail="Epoch 1/9\n"), block(OLD, FAILED, lock="free")])
    machine.answer_facts(runs=records if machine.host.name == "gpu01" else HEAD)


PEER = {"kind": "peer", "host": "gpu02", "how": "failed", "cause": {"kind": "exit", "code": 3}}


def of_two(first: dict[str, Any], second: dict[str, Any], **answers: str) -> Any:
    """What gpu01 and gpu02 say of the worker that each has of one run; `answers` by the scripts' names."""

    def prepare(machine: FakeMachine) -> None:
        host = machine.host.name
        state = first if host == "gpu01" else second
        lock = "free" if "ended" in state else "held"
        worker = block(RUN, state, host=host, hosts=("gpu01", "gpu02"), lock=lock)
        machine.answer_facts(runs=f"{HEAD}\n{worker}")
        for script, out in answers.items():
            machine.answer(script, out=out)

    return prepare


def launched(how: str = "launched", more: Sequence[str] = (), **state: Any) -> Any:
    lines = [
        f"answer {how}",
        "place /home/ana/.orch/ana/mnist",
        "gpus GPU-a,GPU-b,GPU-c,GPU-e",
        "indices 0,1,2,4",
        f"state {json.dumps({**RUNNING, **state})}",
        "log ",
        *more,
    ]

    def prepare(machine: FakeMachine) -> None:
        machine.answer("launch", out="\n".join(lines))

    return prepare


def train(project: Path, *words: str, prepare: Any, host: str = "gpu01") -> Called:
    return call(
        project,
        "train",
        "--hosts",
        host,
        *words,
        "--",
        "python3",
        "train.py",
        "--epochs=100",
        prepare=prepare,
    )
