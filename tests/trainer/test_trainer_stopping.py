"""SIGTERM ends the trainer at once, or when its step is finished."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from orchestrator.trainer.stopping import Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    before = signal.getsignal(signal.SIGTERM)
    stop = Stop()
    stop.listen()
    yield stop
    stop.answer()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_outside_the_training_it_ends_at_once(stop: Stop) -> None:
    with pytest.raises(SystemExit) as end:
        terminate()
    assert end.value.code == 143


def test_within_the_training_it_waits_to_be_answered(stop: Stop) -> None:
    steps = 0
    with pytest.raises(SystemExit) as end, stop.postponed():  # noqa: PT012
        terminate()
        steps += 1
        assert stop.asked
        steps += 1
    assert (steps, end.value.code) == (2, 143)


def test_a_training_that_nobody_ends_goes_on(stop: Stop) -> None:
    with stop.postponed():
        pass
    assert not stop.asked


def test_a_second_one_is_not_caught_any_more(stop: Stop) -> None:
    with pytest.raises(SystemExit), stop.postponed():  # noqa: PT012
        terminate()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
