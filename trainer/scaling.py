"""How the learning rate follows from the number of replicas, and how it rises to that."""

from __future__ import annotations

import argparse
from typing import Any, Dict, NamedTuple

import tensorflow as tf
from tensorflow import keras


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Rises evenly from `start` to `target` over so many steps; depends on the step alone, so it resumes."""

    def __init__(self, start: float, target: float, steps: int) -> None:
        super().__init__()
        self.start = start
        self.target = target
        self.steps = steps

    def __call__(self, step: Any) -> tf.Tensor:
        """The rate of this step, counted from 0."""
        share = tf.minimum(tf.cast(step, tf.float32) / self.steps, 1.0)
        return self.start + (self.target - self.start) * share

    def get_config(self) -> Dict[str, Any]:
        """For Keras, to save it by."""
        return {"start": self.start, "target": self.target, "steps": self.steps}


class Rate(NamedTuple):
    """The learning rate at the first step, after so many steps of warm-up, and how it came to that."""

    start: float
    target: float
    warmup_steps: int
    factor: int
    replicas: int

    def value(self) -> WarmUp:
        """What an optimizer takes: always a schedule, else checkpoints would differ with the replicas."""
        return WarmUp(
            self.start if self.warmup_steps else self.target, self.target, max(1, self.warmup_steps)
        )

    def __str__(self) -> str:
        """For the log."""
        words = f"learning rate {self.target:g}"
        if self.factor > 1:
            words += f" ({self.start:g} x {self.factor})"
        if self.warmup_steps:
            words += f", from {self.start:g} over {self.warmup_steps} steps of warm-up"
        return words


def plan(options: argparse.Namespace, replicas: int, steps: int) -> Rate:
    """Larger steps for larger batches: as far in as many epochs. `steps` are those of an epoch."""
    factor = replicas if options.scaling == "linear" else 1
    warmup = round(options.warmup_epochs * steps) if factor > 1 else 0
    return Rate(options.learning_rate, options.learning_rate * factor, warmup, factor, replicas)


def now(network: keras.Model) -> float:
    """The learning rate as it stands: some Keras hand out the schedule, others what it last came to."""
    rate = network.optimizer.learning_rate
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(network.optimizer.iterations)
    return float(tf.convert_to_tensor(rate))
