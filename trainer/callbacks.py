"""What happens beside the training steps: reports, checkpoints, and the answer to SIGTERM."""

from __future__ import annotations

import sys
import time
from typing import Dict, Optional

from tensorflow import keras

from . import metrics, progress, scaling, stopping
from .checkpoints import Checkpoints
from .errors import TrainerError

Logs = Optional[Dict[str, float]]


class Report(keras.callbacks.Callback):
    """One line of progress.jsonl an epoch, and one of the log where no progress bar shows the same."""

    def __init__(self, plan: progress.Plan, journal: progress.Journal, quiet: bool) -> None:
        super().__init__()
        self.plan = plan
        self.journal = journal
        self.quiet = quiet
        self.began = self.last_step = 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.last_step = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        times = progress.Times(self.last_step - self.began, time.monotonic() - self.began)
        rate = scaling.now(self.model)
        record = progress.record(
            self.plan, epoch + 1, metrics.exact(logs or {}), times, learning_rate=rate, now=time.time()
        )
        self.journal.write(record)
        if not self.quiet:
            print(progress.line(record), flush=True)
        if record["loss"] is None:
            raise TrainerError(
                f"the loss is not a number after epoch {epoch + 1}; try a smaller --learning_rate"
            )


class Save(keras.callbacks.Callback):
    """A checkpoint after each epoch, and after the step in which SIGTERM came."""

    def __init__(self, checkpoints: Checkpoints, stop: stopping.Stop) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.stop = stop
        self.epochs_done = 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.epochs_done = epoch + 1
        self.checkpoints.save(self.epochs_done)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._leave_if_asked()

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._leave_if_asked()

    def _leave_if_asked(self) -> None:
        if not self.stop.asked:
            return
        step = self.checkpoints.save(self.epochs_done)
        print(f"trainer: stopped by SIGTERM; checkpoint of step {step} saved", file=sys.stderr, flush=True)
        raise SystemExit(stopping.STATUS)
