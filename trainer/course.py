"""Keeps count of where the training is, for all that happens beside the steps."""

from __future__ import annotations

import time
from typing import Dict, Mapping, Optional

from tensorflow import keras

from . import model
from .position import Position, whole
from .progress import Plan, Speed, finite

Logs = Optional[Dict[str, float]]


class Course(keras.callbacks.Callback):
    """The first of the callbacks: the others ask it for the position, the means so far, and the speed.

    An epoch that was taken up in its middle gets the means over all of it.
    """

    _supports_tf_logs = True  # else Keras 2 waits for the numbers of each step

    def __init__(self, plan: Plan, begun: Position) -> None:
        super().__init__()
        self.plan = plan
        self.begun = begun
        self.best = begun.best
        self.epoch, self.first, self.step = begun.epoch, begun.step, begun.step
        self.before: Dict[str, float] = dict(begun.means)
        self._logs: Mapping[str, float] = {}
        self._began = self._last = self._warm = time.monotonic()
        self._warm_steps: Optional[int] = None

    @property
    def position(self) -> Position:
        """Where the training is, in the middle of an epoch."""
        return Position(self.epoch, self.step, self.plan.steps, self.means(), self.best)

    @property
    def steps_done(self) -> int:
        """Steps since the first epoch began."""
        return self.epoch * self.plan.steps + self.step

    def means(self) -> Dict[str, float]:
        """Loss and metrics over the epoch so far."""
        if self.step == self.first:
            return dict(self.before)
        return self._over_the_epoch(self._logs)

    def improves(self, logs: Mapping[str, float]) -> bool:
        """Whether an epoch's validation loss is the best so far; remember it."""
        loss = logs.get("val_loss")
        number = finite(loss)
        if number is None or (self.best is not None and not number < self.best):
            return False
        self.best = number
        return True

    def speed(self) -> Speed:
        """As in this epoch, and the time that is left when all goes on as since the first step."""
        trained = self.plan.seen(self.step) - self.plan.seen(self.first)
        left = self.plan.epochs * self.plan.steps - self.steps_done
        since = self.steps_done - (self._warm_steps or 0)
        each = (time.monotonic() - self._warm) / since if since > 0 else None
        return Speed(trained / max(self._last - self._began, 1e-9), left * each if each is not None else None)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if epoch != self.begun.epoch:
            self.first, self.before = 0, {}
        self.epoch, self.step = epoch, self.first
        self._began = self._last = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.step = self.first + batch + 1
        self._logs = logs or {}
        self._last = time.monotonic()
        if self._warm_steps is None:  # the first step took long: TensorFlow made its graph
            self._warm, self._warm_steps = self._last, self.steps_done

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is None:
            return
        found = self._over_the_epoch(logs) if self.step > self.first else model.exact(logs)
        logs.clear()  # the callbacks after this one get the same dictionary
        logs.update(found)

    def _over_the_epoch(self, logs: Mapping[str, float]) -> Dict[str, float]:
        since = {name: float(value) for name, value in model.exact(logs).items()}
        seen = self.plan.seen(self.first)
        return whole(self.before, seen, since, self.plan.seen(self.step) - seen)
