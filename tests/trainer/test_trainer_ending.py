"""A training ends with 0 when its SavedModel is proven and all workers are done, and only then."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.trainer import venvs
from tests.trainer.conftest import Trainer, own_words, python_with
from tests.trainer.pair import Workers

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(1800)]
SHORT = ["--epochs", "1", "--batch_size", "300"]

FAILS = """
import os, signal, sys
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
from trainer import __main__, ending
write = ending.write
def fails(network, folder):
    write(network, folder)
    if sys.argv[1] == "differs":
        network.trainable_variables[-1].assign_add([9.0] + [0.0] * 9)
    elif sys.argv[1] == "raises":
        raise RuntimeError("broken")
    else:
        os.kill(os.getpid(), signal.SIGKILL)
ending.write = fails
__main__.leave(__main__.status_of(sys.argv[2:]))
"""
"""The trainer, whose network changes when its SavedModel was written; or which fails or is killed then."""


@pytest.fixture
def old(tmp_path: Path) -> Trainer:
    return Trainer(python_with(venvs.OLD), tmp_path)


def test_two_workers_end_with_0_each_time(old: Trainer) -> None:
    for number in range(5):
        ended = Workers(old, 2, f"run{number}").trains(*SHORT)
        assert [worker.status for worker in ended] == [0, 0], ended[0].err + ended[1].err
        assert {worker.out.splitlines()[-1] for worker in ended} == {f"test accuracy {ended[0].accuracy:.4f}"}
        assert (ended[0].cwd / "saved_model" / "saved_model.pb").exists()
        assert not list(ended[1].cwd.glob("saved_model*"))


@pytest.mark.parametrize(
    ("how", "status", "words", "other"),
    [
        (
            "differs",
            1,
            "trainer: the SavedModel answers otherwise than the network: ",
            "trainer: another worker failed; its own log says why",
        ),
        ("raises", 1, "", "trainer: lost another worker: "),
        ("killed", -signal.SIGKILL, "", "trainer: lost another worker: "),
    ],
)
def test_what_fails_before_the_end_is_no_success(
    old: Trainer, how: str, status: int, words: str, other: str
) -> None:
    workers = Workers(old, 2)
    script = str(old.cwd / old.writes("fails.py", FAILS))
    chief, second = workers.run([[script, how, *SHORT], ["-m", "trainer", *SHORT]])
    assert (chief.status, second.status) == (status, 1), chief.err + second.err
    assert "test accuracy" not in chief.out + second.out
    assert ("RuntimeError: broken" in chief.err) is (how == "raises")
    assert (own_words(chief.err) or [""])[0].startswith(words)
    assert own_words(second.err)[0].startswith(other)
    assert not (chief.cwd / "saved_model").exists()


def test_a_newer_saved_model_takes_the_place_of_an_older(old: Trainer) -> None:
    (old.cwd / "saved_model").mkdir()
    (old.cwd / "saved_model" / "of an older run").touch()
    done = old.trains(*SHORT)
    assert done.returncode == 0, done.stderr
    assert {"saved_model.pb", "variables"} < set(os.listdir(old.cwd / "saved_model"))
    assert not (old.cwd / "saved_model" / "of an older run").exists()
    assert not list(old.cwd.glob("saved_model.*"))
