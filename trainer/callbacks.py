"""What happens beside the training steps: reports, checkpoints, and the answer to SIGTERM."""

from __future__ import annotations

import sys
import time
from typing import Optional

from tensorflow import keras

from . import progress, scaling
from .beat import Beat
from .checkpoints import Checkpoints
from .course import Course, Logs
from .errors import TrainerError
from .position import Position


class Report(keras.callbacks.Callback):
    """Lines of progress.jsonl, and of the log where no progress bar shows the same.

    Each epoch has one; a long epoch has more, so many seconds apart.
    """

    _supports_tf_logs = True

    def __init__(self, course: Course, journal: progress.Journal, quiet: bool) -> None:
        super().__init__()
        self.course = course
        self.journal = journal
        self.quiet = quiet
        self.written = self.said = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if time.monotonic() - self.written >= progress.WRITTEN and self.course.step < self.course.plan.steps:
            self._tell(self.course.means(), say=time.monotonic() - self.said >= progress.SAID)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        always = epoch < progress.FREE or epoch + 1 == self.course.plan.epochs
        if always or time.monotonic() - self.written >= progress.SHORTEST:
            self._tell(logs or {}, say=True)
        if progress.finite((logs or {}).get("loss", 0)) is None:
            raise TrainerError(
                f"the loss is not a number after epoch {epoch + 1}; try a smaller --learning_rate"
            )

    def _tell(self, logs: Logs, say: bool) -> None:
        course = self.course
        record = progress.record(
            course.plan,
            course.epoch + 1,
            course.step,
            logs or {},
            course.speed(),
            learning_rate=scaling.now(self.model),
            now=time.time(),
        )
        self.journal.write(record)
        self.written = time.monotonic()
        if say and not self.quiet:
            print(progress.line(record), flush=True)
        self.said = time.monotonic() if say else self.said


class Save(keras.callbacks.Callback):
    """A checkpoint after each epoch and every so many steps, and after the step in which SIGTERM came."""

    _supports_tf_logs = True

    def __init__(self, course: Course, checkpoints: Checkpoints, beat: Beat, every: int) -> None:
        super().__init__()
        self.course = course
        self.checkpoints = checkpoints
        self.beat = beat
        self.every = every
        self.between: Optional[Position] = course.begun
        """The position where no epoch has begun."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.between = None
        self.beat.begin()

    def on_test_begin(self, logs: Logs = None) -> None:
        self.beat.begin()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        wishes, step = self.beat.step(), self.course.step
        if wishes.stop:
            self._leave()
        due = wishes.save or (self.every > 0 and step % self.every == 0)
        if due and step < self.course.plan.steps:  # the end of an epoch is saved when it was validated
            self._save()

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self.beat.step().stop:
            self._leave()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        best = self.course.improves(logs or {})
        self.between = Position(epoch + 1, 0, self.course.plan.steps, {}, self.course.best)
        self.checkpoints.save(self.between, best)
        self.beat.has_saved()

    def last_call(self) -> None:
        """When training and test are over: several workers agree for the last time whether to stop.

        What follows is short, and none may leave it without the others.
        """
        if self.beat.together.alone:
            return
        self.beat.begin()
        if self.beat.step().stop:
            self._leave()
        self.beat.stop.ignore()

    def _save(self) -> int:
        if progress.finite(self.course.means().get("loss", 0)) is None:
            raise TrainerError("the loss is not a number, so nothing is saved; try a smaller --learning_rate")
        self.beat.has_saved()
        return self.checkpoints.save(self.between or self.course.position)

    def _leave(self) -> None:
        self.beat.stop.answer()
        who = "SIGTERM" if self.beat.stop.asked else "SIGTERM to another worker"
        step = self._save()
        self.checkpoints.together.wait()
        print(f"trainer: stopped by {who}; checkpoint of step {step} saved", file=sys.stderr, flush=True)
        self.checkpoints.together.farewell()
        self.beat.stop.leave()
