"""./logs for TensorBoard: Keras's scalars of each epoch, and how busy the GPUs were meanwhile."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Iterator, List

import tensorflow as tf
from tensorflow import keras

from . import gpus
from .course import Course
from .strategy import Place

FOLDER = "logs"


@contextmanager
def scalars(place: Place, course: Course) -> Iterator[List[keras.callbacks.Callback]]:
    """Callbacks for the training inside: the chief's write the epochs; GPUs are looked at on each worker.

    There are none where the package TensorBoard isn't installed: newer TensorFlows do not bring it.
    """
    if not installed():
        yield []
        return
    os.makedirs(FOLDER, exist_ok=True)
    watch = gpus.Watch(Writer(place, course), gpus.command())
    watch.start()
    try:
        yield [keras.callbacks.TensorBoard(FOLDER, write_graph=False)] if place.chief else []
    finally:
        watch.close()


def installed() -> bool:
    """Whether TensorBoard is there; say so when it isn't."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        missing = "no ./logs, as TensorBoard is not installed (pip install tensorboard)"
        print(f"trainer: {missing}", file=sys.stderr, flush=True)
        return False
    return True


class Writer:
    """Writes what each GPU does, at the step that the training has come to."""

    def __init__(self, place: Place, course: Course) -> None:
        self.course = course
        self.folder = os.path.join(FOLDER, f"gpus-worker{place.rank}" if place.workers > 1 else "gpus")

    def __call__(self, loads: List[gpus.Load]) -> None:
        """Write down one look."""
        writer = self._writer()
        with writer.as_default(step=self.course.steps_done):
            for load in loads:
                tf.summary.scalar(f"gpu{load.index}/utilisation_percent", load.utilisation)
                tf.summary.scalar(f"gpu{load.index}/memory_mib", load.memory)
        writer.flush()

    def _writer(self) -> tf.summary.SummaryWriter:
        if not hasattr(self, "_open"):
            with tf.device("CPU:0"):
                self._open = tf.summary.create_file_writer(self.folder)
        return self._open
