"""SIGTERM ends the trainer at once, or when its step is finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


STUCK = """
import ctypes, os, signal
from orchestrator.trainer.stopping import Stop
stop = Stop(patience=0.1)
stop.listen()
mutex = ctypes.create_string_buffer(64)
lock = ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
with stop.postponed():
    print("stuck", flush=True)
    lock(mutex)
"""
"""A step that never ends, deep in C, where Python looks at no signal."""


def test_a_step_that_never_ends_is_given_up() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert (
        err
        == "trainer: SIGTERM: no answer from TensorFlow in 0.1 s; left without a checkpoint of this step\n"
    )


def test_when_it_is_too_late_to_stop_it_is_ignored(stop: Stop) -> None:
    with stop.postponed():
        terminate()
        stop.ignore()
        terminate()
    assert not stop.asked


def test_it_is_taken_back_from_whoever_took_it(stop: Stop) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stop.hear()
    with pytest.raises(SystemExit):
        terminate()
