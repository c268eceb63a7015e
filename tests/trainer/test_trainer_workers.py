"""One worker or two, left alone or ended at any step and taken up: the same training."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.trainer import venvs
from tests.trainer.conftest import Trainer, own_words, python_with
from tests.trainer.pair import Ended, Workers

STEPS = 82
"""Of two epochs of 32 examples a step."""

WANTED = {"tf2.9.3": venvs.OLD, "newest": venvs.NEWEST}
pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(1800)]
Alone = dict[tuple[str, int], list[Ended]]


@pytest.fixture(scope="module")
def alone() -> Alone:
    """Trainings that were left alone, by TensorFlow and number of workers: made once, compared with often."""
    return {}


def left_alone(alone: Alone, tensorflow: str, count: int, folder: Path) -> list[Ended]:
    key = (tensorflow, count)
    if key not in alone:
        workers = Workers(Trainer(python_with(WANTED[tensorflow]), folder), count, "alone")
        alone[key] = workers.trains(*workers.equally())
    return alone[key]


@pytest.fixture
def draw() -> random.Random:
    seed = int(os.environ.get("ORCH_TEST_SEED") or random.randrange(10**6))
    print(f"ORCH_TEST_SEED={seed}")
    return random.Random(seed)


def same(found: list[dict[str, float]], expected: list[dict[str, float]]) -> bool:
    """Whether the loss and the metrics of all epochs agree."""
    names = [name for name in expected[0] if name.removeprefix("val_") in ("loss", "accuracy")]
    assert len(names) == 4
    told = [[epoch[name] for name in names] for epoch in found]
    return told == [pytest.approx([epoch[name] for name in names], rel=2e-3) for epoch in expected]


@pytest.mark.parametrize("tensorflow", WANTED)
def test_two_workers_train_as_one_does(alone: Alone, tensorflow: str, tmp_path: Path) -> None:
    (one,) = left_alone(alone, tensorflow, 1, tmp_path)
    chief, other = left_alone(alone, tensorflow, 2, tmp_path)
    assert [one.status, chief.status, other.status] == [0, 0, 0], chief.err + other.err
    assert len(one.epochs) == 2
    assert same(chief.epochs, one.epochs)
    assert same(other.epochs, chief.epochs)
    assert chief.accuracy == pytest.approx(one.accuracy, abs=0.006)
    left = {path.name for path in other.cwd.iterdir()}
    assert left <= {"logs", "progress.jsonl"}, "only the chief keeps what is saved"
    assert {path.name for path in chief.cwd.iterdir()} == {
        "checkpoints",
        "logs",
        "progress.jsonl",
        "saved_model",
    }


@pytest.mark.parametrize(("tensorflow", "count"), [("tf2.9.3", 1), ("tf2.9.3", 2), ("newest", 1)])
def test_killed_at_any_step_and_taken_up_it_ends_alike(
    alone: Alone, tensorflow: str, count: int, draw: random.Random, tmp_path: Path
) -> None:
    workers = Workers(Trainer(python_with(WANTED[tensorflow]), tmp_path), count)
    step, rank = draw.randrange(8, STEPS), draw.randrange(count)
    flags = workers.equally("--save_every", "7")
    killed = workers.one_gets(rank, signal.SIGKILL, step, *flags)
    assert killed[rank].status == -signal.SIGKILL
    for other in killed[:rank] + killed[rank + 1 :]:
        assert other.status not in (0, -signal.SIGKILL), "whose peer was killed has not trained"
    ended = workers.trains(*flags)
    chief = ended[0]
    assert [worker.status for worker in ended] == [0] * count, chief.err
    assert "goes on from checkpoints/ckpt-" in chief.out
    expected = left_alone(alone, tensorflow, count, tmp_path)[0]
    assert same([*{epoch["epoch"]: epoch for epoch in chief.epochs}.values()], expected.epochs)
    assert chief.accuracy == expected.accuracy
    for worker in ended[1:]:
        assert not list(worker.cwd.glob("checkpoints*"))


@pytest.mark.parametrize("tensorflow", WANTED)
def test_sigterm_to_one_of_two_ends_both_at_the_same_step(
    alone: Alone, tensorflow: str, draw: random.Random, tmp_path: Path
) -> None:
    workers = Workers(Trainer(python_with(WANTED[tensorflow]), tmp_path), 2)
    step, rank = draw.randrange(2, STEPS - 41), draw.randrange(2)
    ended = workers.one_gets(rank, signal.SIGTERM, step, *workers.equally())
    assert [worker.status for worker in ended] == [143, 143], ended[0].err + ended[1].err
    said = [own_words(worker.err)[0].partition("; ") for worker in ended]
    assert said[0][2] == said[1][2] != ""
    assert said[rank][0] == "trainer: stopped by SIGTERM"
    assert said[1 - rank][0] == "trainer: stopped by SIGTERM to another worker"
    chief, other = workers.trains(*workers.equally())
    assert (chief.status, other.status) == (0, 0), chief.err
    expected = left_alone(alone, tensorflow, 2, tmp_path)[0]
    assert same(chief.epochs, expected.epochs)
    assert chief.accuracy == expected.accuracy


@pytest.mark.parametrize("tensorflow", WANTED)
def test_stopped_while_it_validates_it_ends_alike(alone: Alone, tensorflow: str, tmp_path: Path) -> None:
    workers = Workers(Trainer(python_with(WANTED[tensorflow]), tmp_path), 1)
    (stopped,) = workers.one_gets(0, signal.SIGTERM, "validation", *workers.equally())
    assert stopped.status == 143, stopped.err
    assert own_words(stopped.err) == ["trainer: stopped by SIGTERM; checkpoint of step 41 saved"]
    (ended,) = workers.trains(*workers.equally())
    assert "goes on from checkpoints/ckpt-41: 0 epochs and 41 of 41 steps done" in ended.out
    (expected,) = left_alone(alone, tensorflow, 1, tmp_path)
    assert same(ended.epochs, expected.epochs)
    assert ended.accuracy == expected.accuracy
    (again,) = workers.trains(*workers.equally())
    assert "2 epochs done" in again.out
    assert again.accuracy == expected.accuracy


def test_a_checkpoint_that_cannot_be_taken_up_is_one_line(tmp_path: Path) -> None:
    one = Workers(Trainer(python_with(venvs.OLD), tmp_path), 1)
    assert one.trains("--epochs", "1")[0].status == 0
    ended = [one.trains("--epochs", "2", "--data", "synthetic", "--classes", "4")[0]]
    (data,) = (ended[0].cwd / "checkpoints").glob("ckpt-41.data*")
    data.write_bytes(data.read_bytes()[:1000])
    ended += one.trains("--epochs", "2")
    for worker in ended:
        assert worker.status == 1
        assert own_words(worker.err) == [
            "trainer: checkpoints/ckpt-41 cannot be taken up: it is damaged, or of another network "
            "(--fresh begins anew)"
        ]
        assert "Traceback" not in worker.err
    (fresh,) = one.trains("--epochs", "1", "--fresh")
    assert fresh.status == 0
