"""Metrics in which each example counts once, whatever it weighs; rows of weight 0, which only fill up, don't.

Keras divides a loss by all rows, those that fill up too; so the mean over the real ones is a metric as well.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import tensorflow as tf
from tensorflow import keras

MEAN_LOSS = "mean_loss"


def once(weight: Any) -> Any:
    """1 for a row that counts, 0 for one that fills up."""
    return None if weight is None else tf.cast(tf.convert_to_tensor(weight) > 0, tf.float32)


class Accuracy(keras.metrics.SparseCategoricalAccuracy):
    """The share of examples (or of tokens) that are recognised."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Count a batch."""
        return super().update_state(y_true, y_pred, sample_weight=once(sample_weight))


class MeanLoss(keras.metrics.SparseCategoricalCrossentropy):
    """The loss of the mean example."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Count a batch."""
        return super().update_state(y_true, y_pred, sample_weight=once(sample_weight))


def counted() -> List[keras.metrics.Metric]:
    """What to compile a classifying network with."""
    return [Accuracy(name="accuracy"), MeanLoss(name=MEAN_LOSS)]


def exact(logs: Mapping[str, float]) -> Dict[str, float]:
    """Keras's logs with `loss` and `val_loss` as the means over real examples."""
    found = dict(logs)
    for prefix in ("", "val_"):
        if prefix + MEAN_LOSS in found:
            found[f"{prefix}loss"] = found.pop(prefix + MEAN_LOSS)
    return found
