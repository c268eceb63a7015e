"""From arrays to batches."""

from __future__ import annotations

from typing import NamedTuple, Tuple

import tensorflow as tf

from .dataset import Dataset, Part

FILLING = -1
"""In place of a row number: a row that only fills up."""


class Batches(NamedTuple):
    """The three parts of the data, ready to be fed."""

    train: tf.data.Dataset
    validation: tf.data.Dataset
    test: tf.data.Dataset

    @classmethod
    def of(cls, data: Dataset, per_replica: int, replicas: int) -> Batches:
        """All parts in batches of `per_replica` for each replica; the training part in ever new order."""
        size = per_replica * replicas
        return cls(
            batches(data.train, order(data.train, replicas, shuffle=True), size),
            batches(data.validation, order(data.validation, replicas), size),
            batches(data.test, order(data.test, replicas), size),
        )


def order(part: Part, replicas: int, shuffle: bool = False) -> tf.data.Dataset:
    """The number of each row once, shuffled in a new order each epoch; then rows that fill up.

    The filling makes the last batch one that all replicas share alike: one that is left with nothing crashes.
    """
    count = len(part.labels)
    rows = tf.data.Dataset.range(count)
    if shuffle:
        rows = rows.shuffle(count)
    filling = tf.data.Dataset.from_tensors(tf.constant(FILLING, tf.int64)).repeat(-count % replicas)
    return rows.concatenate(filling)


def batches(part: Part, rows: tf.data.Dataset, size: int) -> tf.data.Dataset:
    """Images, labels and weights of these rows, `size` at a time; the weight is 1, or 0 for filling.

    The images stay in the memory of the CPU. The replicas share each batch, so the data itself isn't sharded.
    """
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    with tf.device("CPU:0"):
        images, labels = tf.constant(part.images), tf.constant(part.labels)

    def look_up(chosen: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        real = tf.maximum(chosen, 0)
        return tf.gather(images, real), tf.gather(labels, real), tf.cast(chosen != FILLING, tf.float32)

    return (
        rows.batch(size)
        .map(look_up, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )
