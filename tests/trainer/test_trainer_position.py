"""What a checkpoint knows of the position, and the means of an epoch that was taken up."""

from __future__ import annotations

import pytest
from orchestrator.trainer.position import Position, whole


def test_a_position_is_written_and_read_again() -> None:
    begun = Position(2, 21, 41, {"loss": 0.5}, 0.25)
    assert Position.of(begun.text()) == begun
    assert Position.of('{"epoch": 3, "of a newer trainer": 1}') == Position(3)


def test_an_epoch_that_is_cut_otherwise_is_begun_anew() -> None:
    begun = Position(2, 21, 41, {"loss": 0.5}, 0.25)
    assert begun.fitting(41) == begun
    assert begun.fitting(20) == Position(2, 0, 20, {}, 0.25)
    assert Position(2, 0, 41).fitting(20).epoch == 2


def test_the_means_count_each_example_alike() -> None:
    found = whole({"loss": 1.0}, 30, {"loss": 4.0, "accuracy": 0.5}, 10)
    assert found == {"loss": pytest.approx(1.75), "accuracy": 0.5}
    assert whole({}, 0, {"loss": 4.0}, 10) == {"loss": 4.0}


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position(1, 0, 41), "1 epoch done"),
        (Position(2, 0, 41), "2 epochs done"),
        (Position(0, 21, 41), "0 epochs and 21 of 41 steps done"),
    ],
)
def test_it_is_told(position: Position, text: str) -> None:
    assert str(position) == text
