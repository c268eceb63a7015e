"""What the trainer says of its progress, to people and to programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from orchestrator.trainer import progress

PLAN = progress.Plan(epochs=12, steps=41, examples=1300)
LOGS = {"loss": 0.5, "accuracy": 0.875, "val_loss": 0.25, "val_accuracy": 0.9375}


def after(epoch: int, logs: dict[str, float] | None = None) -> progress.Record:
    left = (12 - epoch) * 2.5
    return at(epoch, 41, LOGS if logs is None else logs, progress.Speed(650.0, left))


def at(epoch: int, step: int, logs: dict[str, float], speed: progress.Speed) -> progress.Record:
    rate = 0.0010000000474974513
    return progress.record(PLAN, epoch, step, logs, speed, learning_rate=rate, now=1794000000.1239)


def test_a_record_counts_epochs_steps_and_seconds() -> None:
    assert after(3) == {
        "epoch": 3,
        "epochs": 12,
        "step": 123,
        "steps": 492,
        **LOGS,
        "examples_per_second": 650.0,
        "eta_seconds": 22.5,
        "learning_rate": 0.001,
        "time": 1794000000.124,
    }


def test_the_line_for_people() -> None:
    assert progress.line(after(3)) == (
        "epoch  3/12  loss 0.5000  accuracy 0.8750  val_loss 0.2500  val_accuracy 0.9375  650 ex/s  ETA 22 s"
    )
    assert progress.line(after(12)).endswith("650 ex/s")


def test_within_an_epoch_the_step_is_told() -> None:
    record = at(3, 20, {"accuracy": 0.875, "loss": 0.5}, progress.Speed(650.0, None))
    assert (record["step"], record["steps"], record["eta_seconds"]) == (102, 492, None)
    assert progress.line(record) == "epoch  3/12  step 20/41  loss 0.5000  accuracy 0.8750  650 ex/s"


def test_the_loss_comes_first_and_the_validation_last() -> None:
    logs = {"accuracy": 1, "loss": 2, "val_accuracy": 3, "val_loss": 4}
    assert [name for name in after(1, logs) if name in logs] == [
        "loss",
        "accuracy",
        "val_loss",
        "val_accuracy",
    ]


def test_what_is_no_number_is_null_in_json_and_nan_for_people() -> None:
    record = after(1, {**LOGS, "loss": float("nan"), "val_loss": float("inf")})
    assert (record["loss"], record["val_loss"]) == (None, None)
    assert "loss nan  accuracy 0.8750  val_loss nan" in progress.line(record)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (87.4, "87"),
        (999, "999"),
        (999.6, "1.0k"),
        (2130, "2.1k"),
        (9960, "10k"),
        (310_000, "310k"),
        (999_700, "1.0M"),
        (1_250_000, "1.2M"),
    ],
)
def test_amounts(number: float, text: str) -> None:
    assert progress.amount(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3570, "1 h 0 min"),
        (7380, "2 h 3 min"),
        (360000, "100 h 0 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_the_journal_starts_anew_and_each_line_is_there_at_once(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    file.write_text("an older training\n")
    journal = progress.Journal(str(file))
    for epoch in (1, 2):
        journal.write(after(epoch))
        lines = file.read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == list(range(1, epoch + 1))
    journal.close()


def test_a_training_that_is_taken_up_goes_on_in_it(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    for epoch, goes_on in ((1, False), (2, True)):
        journal = progress.Journal(str(file), goes_on)
        journal.write(after(epoch))
        journal.close()
    assert [json.loads(line)["epoch"] for line in file.read_text().splitlines()] == [1, 2]


def test_the_journal_lies_here_or_where_it_is_asked_for() -> None:
    assert progress.path({}) == "progress.jsonl"
    assert progress.path({"ORCH_PROGRESS": ""}) == "progress.jsonl"
    assert progress.path({"ORCH_PROGRESS": "/runs/7f3a/progress.jsonl"}) == "/runs/7f3a/progress.jsonl"
