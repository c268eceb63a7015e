"""orch deploy by venv and host, on machines that only pretend: GPUs, what was there, what changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.engine import Environment
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import Called, call
from tests.unit.test_environment import CONTAINER

PLACE = "/home/ana/.orch/ana/mnist"
SYSTEM = (
    "arch\tx86_64\nuid\t1001\nuser\tana\nhome\t/home/ana\npython-found\t/p/python3\t/p/python3\t3.10.4\tyes"
)
OWN = "bash\t/bin/bash\npython\t/p/python3\nversion\t3.10.4\n"
GPUS = (
    "smi\t/usr/bin/nvidia-smi\nfields\tindex,uuid,name\ngpu\t0, GPU-aa, NVIDIA A100\n"
    "gpu\t1, GPU-bb, NVIDIA A100\nstatus\t0\napps-status\t0\n"
)
SEEN = {
    "python": "3.10.4",
    "user": "ana",
    "uid": 1001,
    "gid": 1001,
    "home": "/home/ana",
    "tensorflow": "2.9.3",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src" / "mnist").mkdir(parents=True)
    return tmp_path / "src" / "mnist"


def deploy(
    project: Path, *words: str, engine: str = "venv", gpu: str = "", there: str = "", later: str = "",
    settings: str = "", turn: str = "yours\n", **seen: Any,
) -> Called:  # fmt: skip
    """Deploy; `there` are more facts of the project's folder, `later` those when the turn has come."""
    text = f"gpu01\n[all:vars]\nperson=ana\nproject=mnist\nengine={engine}\n{settings}"
    (project / "hosts.ini").write_text(text)
    place = f"place\t{PLACE}\nmachine\tgpu01\n"

    def prepare(machine: FakeMachine) -> None:
        machine.answer_facts(system=SYSTEM, gpu=gpu, own=OWN, place=place + (later or there))
        machine.answer("turn", out=turn)
        machine.answer("install", out="Successfully installed\n")
        machine.answer("folders", Result(0, b"", b""))
        machine.answer("proof", out=json.dumps({**SEEN, **seen}) + "\n")
        machine.answer("finish", Result(0, b"", b""))
        if later:
            first = FakeMachine(machine.host)
            first.answer_facts(system=SYSTEM, gpu=gpu, own=OWN, place=place + there)
            machine.answer("system+gpu+place+own", first.run)  # type: ignore[arg-type]

    return call(project, "deploy", *(words or ("--yes",)), prepare=prepare)


def names(called: Called) -> list[str]:
    return [script.name for script in called.machines["gpu01"].ran]


def deployed(called: Called) -> dict[str, Any]:
    (finish,) = [s.text for s in called.machines["gpu01"].ran if s.name == "finish"]
    line = next(line for line in finish.splitlines() if '"engine":' in line)
    return json.JSONDecoder().raw_decode(line, line.index("{"))[0]  # type: ignore[no-any-return]


def test_fewer_gpus_than_there_are_is_a_failure_and_nothing_is_written_down(project: Path) -> None:
    called = deploy(project, gpu=GPUS, cuda=True, framework_gpus=0, gpus=["GPU-aa", "GPU-bb"])
    assert called.status == 1
    assert "0 of 2 GPUs are seen from inside" in called.err
    assert "its CUDA libraries do not fit, or the driver is too old" in called.err
    assert "finish" not in names(called)


def test_on_a_gpu_host_cuda_comes_with_tensorflow(project: Path) -> None:
    called = deploy(project, gpu=GPUS, cuda=True, framework_gpus=2, gpus=["GPU-aa", "GPU-bb"])
    assert called.status == 0
    assert "  venv       install  Python 3.10.4   tensorflow==2.9.3 + CUDA" in called.err
    enter = called.machines["gpu01"].files[f"{PLACE}/hosts/gpu01/enter.part"].decode()
    assert 'LD_LIBRARY_PATH="$orch_lib' in enter
    assert "CUDA_VISIBLE_DEVICES" not in enter
    assert deployed(called)["gpus"] == ["GPU-aa", "GPU-bb"]


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [("1", ["GPU-aa"]), ("0,1", ["GPU-aa", "GPU-bb"]), ("GPU-bb", ["GPU-bb"]), ("none", [])],
)
def test_gpus_that_are_not_named_are_hidden(project: Path, wish: str, chosen: list[str]) -> None:
    both = ["GPU-aa", "GPU-bb"]
    called = deploy(
        project,
        engine="host",
        gpu=GPUS,
        settings=f"gpus={wish}\n",
        cuda=True,
        framework_gpus=len(chosen),
        gpus=both,
    )
    assert called.status == 0, called.err
    enter = called.machines["gpu01"].files[f"{PLACE}/hosts/gpu01/enter.part"].decode()
    assert f"CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES-{','.join(chosen)}}}" in enter
    assert deployed(called)["gpus"] == chosen


def test_a_container_that_is_there_is_spoken_of(project: Path) -> None:
    there = replace(CONTAINER, person="ana", project="mnist", folder="elsewhere:/src/mnist")
    called = deploy(project, "--dry-run", engine="host", there=f"environment\t{there.text()}\n")
    assert "container orch-ana-mnist stays; `orch down` would remove it first" in called.out


def test_what_changes_between_the_plan_and_the_turn_is_a_refusal(project: Path) -> None:
    there = Environment.parse(json.dumps({**json.loads(CONTAINER.text()), "person": "ana"}))
    called = deploy(project, engine="host", later=f"environment\t{there.text()}\n")
    assert called.status == 75
    assert "what is there has changed since the plan was made. Deploy again." in called.err
    assert "folders" not in names(called)


def test_another_deploy_that_goes_on_is_waited_for_and_then_told(project: Path) -> None:
    called = deploy(project, engine="host", turn="taken deploy by bob@desk\n")
    assert called.status == 75
    assert "bob@desk is going on" in called.err
    assert "proof" not in names(called)


def test_settings_that_an_engine_has_no_use_for_are_named(project: Path) -> None:
    settings = "requirements=wandb\napt_packages=ffmpeg\n"
    called = deploy(project, "--dry-run", engine="host", settings=settings)
    assert "requirements, apt_packages: not for engine host, passed over" in called.out
