"""From row numbers to batches: what of an example's kind (arrays, pool, records) TensorFlow must know."""

from __future__ import annotations

from typing import Callable, Tuple

import tensorflow as tf

from . import decode
from .examples import Arrays, Part, Pool, Records

LookUp = Callable[[tf.Tensor], Tuple[tf.Tensor, tf.Tensor]]
"""From row numbers, int64 (B,), to inputs (B, ...) and labels (B,) or (B, T)."""


def look_up(part: Part) -> LookUp:
    """How to find rows of this part."""
    if isinstance(part, Records):
        return decode.look_up(part)
    if isinstance(part, Pool):
        with tf.device("CPU:0"):
            rows = tf.constant(part.rows, tf.int64)
        few = in_memory(part.few)
        return lambda chosen: few(tf.gather(rows, chosen))
    return in_memory(part)


def in_memory(part: Arrays) -> LookUp:
    """Arrays stay in the memory of the CPU, as they are; tokens become whole numbers that networks take."""
    with tf.device("CPU:0"):
        inputs, labels = tf.constant(part.inputs), tf.constant(part.labels)
    tokens = labels.shape.rank > 1

    def find(rows: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        x, y = tf.gather(inputs, rows), tf.gather(labels, rows)
        return (tf.cast(x, tf.int32), tf.cast(y, tf.int32)) if tokens else (x, y)

    return find
