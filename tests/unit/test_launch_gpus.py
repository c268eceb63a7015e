"""Which GPUs a launch gives a run, by a real sh on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Busy, HostError
from orchestrator.facts.gpu import GPUS as GPU_FACT
from orchestrator.facts.gpu import is_free
from orchestrator.facts.question import ask
from tests.unit.run_place import GPUS, IDLE, RUN, Place, place

__all__ = ["place"]  # a fixture


@pytest.fixture
def smi(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nvidia-smi that prints `rows` and `apps` from a folder."""
    tools = tmp_path / "smi"
    tools.mkdir()
    (tools / "rows").write_text(IDLE)
    (tools / "apps").write_text("")
    program = tools / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *compute-apps*) cat {tools}/apps;; *) cat {tools}/rows;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    place.deploy(gpus=GPUS)
    return tools


def chosen(place: Place, run: str) -> Any:
    return place.launch(
        "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; sleep 60", run=run
    ).indices


def test_all_free_gpus_by_default(place: Place, smi: Path) -> None:
    launched = place.launch("sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER", watch=20)
    assert launched.gpus == GPUS
    assert launched.log == "GPU-aaaa,GPU-bbbb,GPU-cccc PCI_BUS_ID"


@pytest.mark.parametrize(
    ("rows", "apps", "wish", "expected"),
    [
        (IDLE, "", "1", (0,)),
        (IDLE, "", "ids:2,0", (2, 0)),
        (IDLE, "", "ids:GPU-bbbb", (1,)),
        (IDLE, "GPU-aaaa\n", "1", (1,)),
        (IDLE.replace("GPU-aaaa, 3", "GPU-aaaa, 501"), "", "", (1, 2)),
        (IDLE.replace("GPU-bbbb, 3", "GPU-bbbb, [GPU is lost]"), "", "", (0, 2)),
        (IDLE.replace("GPU-bbbb, 3", "GPU-bbbb, [N/A]"), "", "", (0, 1, 2)),
        (IDLE + "3, GPU-dddd, 3\n", "", "all", (0, 1, 2)),
    ],
)
def test_the_choice(
    place: Place, smi: Path, rows: str, apps: str, wish: str, expected: tuple[int, ...]
) -> None:
    (smi / "rows").write_text(rows)
    (smi / "apps").write_text(apps)
    assert place.launch("true", gpus=wish, watch=5).indices == expected


@pytest.mark.parametrize("wish", ["4", "all", "ids:0"])
def test_too_few_free_ones_are_busy_and_leave_nothing(place: Place, smi: Path, wish: str) -> None:
    (smi / "apps").write_text("GPU-aaaa\n")
    with pytest.raises(Busy, match="no free GPU"):
        place.launch("true", gpus=wish)
    assert not list((place.folder / "runs").glob("2*"))


@pytest.mark.parametrize("known", [True, False], ids=["processes-known", "processes-not-known"])
@pytest.mark.parametrize(
    ("held", "process", "free"),
    [
        ("3", False, True),
        ("500", False, True),
        ("501", False, False),
        ("3", True, False),
        ("[N/A]", False, True),
        ("[Not Supported]", False, True),
        ("[N/A]", True, False),
        ("[Unknown Error]", False, False),
        ("[GPU requires reset]", False, False),
    ],
)
def test_a_launch_and_gpu_status_call_the_same_gpus_free(
    place: Place, smi: Path, held: str, process: bool, free: bool, known: bool
) -> None:
    if not known:
        free = held in ("3", "500")  # a process that nobody sees; where no memory is told nothing is known
    (smi / "rows").write_text(f"0, GPU-aaaa, {held}\n")
    (smi / "full").write_text(f"0, GPU-aaaa, A100, 535.1, 40960, {held}, 0, 30, 50, [N/A]\n")
    (smi / "apps").write_text("GPU-aaaa\n" * process if known else "Unknown Error\n")
    (smi / "who").write_text("GPU-aaaa, 4242, python3, 3\n" * process if known else "Unknown Error\n")
    (smi / "nvidia-smi").write_text(
        f'#!/bin/sh\ncd {smi}\ncase "$*" in\n'
        f"*apps=gpu_uuid,*) cat who; exit {int(not known)} ;;\n*apps=*) cat apps; exit {int(not known)} ;;\n"
        "*gpu=index,uuid,memory.used*) cat rows ;;\n*) cat full ;;\nesac\n"
    )
    (gpu,) = ask(place.machine, GPU_FACT).of(GPU_FACT).gpus
    assert is_free(gpu) is free
    if free:
        assert place.launch("true", gpus="ids:0", watch=5).indices == (0,)
    else:
        with pytest.raises(Busy, match="no free GPU"):
            place.launch("true", gpus="ids:0")


def test_share_takes_a_gpu_in_use(place: Place, smi: Path) -> None:
    (smi / "apps").write_text("GPU-aaaa\n")
    assert place.launch("true", gpus="ids:0", share=True, watch=5).indices == (0,)


def test_a_gpu_that_is_not_there(place: Place, smi: Path) -> None:
    with pytest.raises(HostError, match="there is no GPU 7"):
        place.launch("true", gpus="ids:7")


def test_a_run_that_has_not_touched_its_gpu_yet_holds_it(place: Place, smi: Path) -> None:
    assert place.launch("sleep", "60", gpus="2", run=RUN + "1").indices == (0, 1)
    assert place.launch("sleep", "60", run=RUN + "2").indices == (2,)
    with pytest.raises(Busy):
        place.launch("sleep", "60", run=RUN + "3")


def test_a_run_that_ended_holds_nothing(place: Place, smi: Path) -> None:
    place.launch("true", run=RUN + "1", watch=20)
    assert place.launch("true", run=RUN + "2", gpus="all", watch=5).indices == (0, 1, 2)


def test_none_hides_the_gpus(place: Place, smi: Path) -> None:
    launched = place.launch("sh", "-c", 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"', gpus="none", watch=20)
    assert launched.gpus == ()
    assert launched.log == "[]"


def test_an_environment_without_gpus(place: Place) -> None:
    launched = place.launch("sh", "-c", 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"', watch=20)
    assert (launched.gpus, launched.log) == (None, "[unset]")
    with pytest.raises(HostError, match="has no GPU"):
        place.launch("true", gpus="1", run=RUN + "2")
