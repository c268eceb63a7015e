"""The load of the GPUs: asked of nvidia-smi, shown in TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from orchestrator.trainer import gpus

from tests.trainer.conftest import Trainer

SMI = """#!/bin/sh
case "$*" in
*--query-gpu=index,utilization.gpu,memory.used*nounits*)
    printf '0, 87, 10240\\n1, [N/A], [N/A]\\n2, 0, 3\\n' ;;
*) exit 6 ;;
esac
"""

SCALARS = """
import glob, tensorflow
(file,) = glob.glob("logs/gpus/events*")
for event in tensorflow.compat.v1.train.summary_iterator(file):
    for value in event.summary.value:
        print(value.tag, float(tensorflow.make_ndarray(value.tensor)))
"""


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """A folder with an nvidia-smi that knows three GPUs, one of which doesn't tell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(SMI)
    (folder / "nvidia-smi").chmod(0o755)
    return folder


def test_only_this_process_s_gpus_are_asked_for(smi: Path) -> None:
    environ = {"PATH": str(smi)}
    assert "-i" not in gpus.command(environ)
    assert gpus.command({**environ, "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"})[-2:] == ["-i", "GPU-1,GPU-2"]
    assert gpus.command({**environ, "CUDA_VISIBLE_DEVICES": ""}) == []
    assert gpus.command({"PATH": "/nonexistent"}) == []


def test_a_gpu_that_does_not_tell_is_left_out() -> None:
    assert gpus.parse("0, 87, 10240\n1, [N/A], 3\nNo devices were found\n") == [gpus.Load(0, 87, 10240)]


def test_where_nothing_answers_nothing_is_told() -> None:
    told: list[list[gpus.Load]] = []
    for words in ([], ["/nonexistent"], ["/bin/false"]):
        watch = gpus.Watch(told.append, words, period=0)
        watch.start()
        watch.close()
    assert told == []


@pytest.mark.tensorflow
@pytest.mark.timeout(1800)
def test_tensorboard_shows_it(newest: Trainer, smi: Path) -> None:
    done = newest.trains("--epochs", "1", PATH=f"{smi}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    told = newest.python_runs("-c", SCALARS).stdout.splitlines()
    assert told[:4] == [
        "gpu0/utilisation_percent 87.0",
        "gpu0/memory_mib 10240.0",
        "gpu2/utilisation_percent 0.0",
        "gpu2/memory_mib 3.0",
    ]
