"""From the examples to what each replica is fed: each example once an epoch, over all workers.

All workers must take the same number of steps, or those that take more wait for ever. So every worker reckons
the order of all examples alike, from the seed and the number of the epoch, and takes its share of each step:
of `per_replica` x `replicas` rows, the first `per_replica` are replica 0's, and so on. The last step has
fewer, cut alike for all replicas; where they don't come out even, rows of weight 0 fill up.

The real rows of that last step weigh all/real: Keras's mean over all of them is then the mean over the real
ones. Metrics only ask whether a weight is above 0 (see `metrics.py`): each example counts once.
"""

from __future__ import annotations

import argparse
from typing import Callable, NamedTuple, Tuple

import numpy as np
import tensorflow as tf

from . import decode
from .dataset import Dataset
from .examples import Part
from .lookup import look_up
from .strategy import Place

FILLING = -1
"""In place of a row number: a row that only fills up."""

Order = Callable[[tf.Tensor], tf.Tensor]
"""From the number of an epoch to the order of the row numbers."""


class Share(NamedTuple):
    """What falls to worker `rank` of `examples`, `per_replica` a step for each of its `local` replicas."""

    examples: int
    per_replica: int
    workers: int
    local: int
    rank: int

    @property
    def replicas(self) -> int:
        """Devices over all workers."""
        return self.workers * self.local

    @property
    def full(self) -> int:
        """Steps in which every replica has `per_replica` rows."""
        return self.examples // (self.per_replica * self.replicas)

    @property
    def left(self) -> int:
        """Rows of the last step, when it isn't full."""
        return self.examples % (self.per_replica * self.replicas)

    @property
    def tail(self) -> int:
        """Rows for each replica in that step, filling included."""
        return -(-self.left // self.replicas)

    @property
    def steps(self) -> int:
        """Steps in an epoch, for every worker."""
        return self.full + bool(self.left)

    def rows(self, order: tf.Tensor) -> tf.data.Dataset:
        """The rows of each of this worker's replicas in turn, with the weight of a real one."""
        even = self.full * self.replicas * self.per_replica
        steps = tf.reshape(order[:even], (self.full, self.workers, self.local, self.per_replica))
        mine = tf.reshape(steps[:, self.rank], (self.full * self.local, self.per_replica))
        rows = tf.data.Dataset.from_tensor_slices((mine, tf.ones(self.full * self.local)))
        if not self.left:
            return rows
        filled = tf.pad(order[even:], [[0, self.tail * self.replicas - self.left]], constant_values=FILLING)
        last = tf.reshape(filled, (self.workers, self.local, self.tail))[self.rank]
        weight = tf.fill([self.local], self.tail * self.replicas / self.left)
        return rows.concatenate(tf.data.Dataset.from_tensor_slices((last, weight)))


class Feeds:
    """The three parts of the data as endless, distributed streams of (x, y, weight).

    `data` is the one given, with what was looked up in its records. Raises BadInput when they are no good.
    """

    def __init__(self, data: Dataset, place: Place, options: argparse.Namespace) -> None:
        self.data = decode.settled(data, options)
        self.place = place
        self.per_replica = int(options.batch_size)
        self.seed = int(options.seed)

    @property
    def global_batch(self) -> int:
        """Examples in a step over all workers."""
        return self.per_replica * self.place.replicas

    @property
    def examples(self) -> int:
        """Examples in an epoch of training."""
        return len(self.data.train)

    @property
    def steps(self) -> int:
        """Steps in an epoch of training, the same on every worker."""
        return self._share(self.data.train).steps

    @property
    def validation_steps(self) -> int:
        """Steps in one pass over the validation part."""
        return self._share(self.data.validation).steps

    @property
    def test_steps(self) -> int:
        """Steps in one pass over the test part."""
        return self._share(self.data.test).steps

    def train(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The training part from this step of this epoch on, in an order of its own in each epoch."""
        examples = len(self.data.train)
        return self._stream(
            self.data.train, lambda number: shuffled(examples, self.seed, number), epoch, step
        )

    def validation(self) -> tf.data.Dataset:
        """The validation part, over and over in the same order."""
        return self._stream(
            self.data.validation, lambda _: tf.range(len(self.data.validation), dtype=tf.int64)
        )

    def test(self) -> tf.data.Dataset:
        """The test part, over and over in the same order."""
        return self._stream(self.data.test, lambda _: tf.range(len(self.data.test), dtype=tf.int64))

    def sample(self, number: int) -> np.ndarray:
        """So many inputs of the test part, as they are fed: to compare what two models say of them."""
        rows = tf.range(min(number, len(self.data.test)), dtype=tf.int64)
        return look_up(self.data.test)(rows)[0].numpy()

    def _share(self, part: Part) -> Share:
        place = self.place
        return Share(len(part), self.per_replica, place.workers, place.local, place.rank)

    def _stream(self, part: Part, order: Order, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        share = self._share(part)

        def worker(_: tf.distribute.InputContext) -> tf.data.Dataset:
            return stream(part, share, order, epoch, step)

        return self.place.strategy.distribute_datasets_from_function(worker)


def stream(part: Part, share: Share, order: Order, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
    """Batches for each of this worker's replicas in turn, without end; prefetched."""
    find = look_up(part)

    def batch(rows: tf.Tensor, weight: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        x, y = find(tf.maximum(rows, 0))
        weights = tf.where(rows == FILLING, 0.0, weight)
        for _ in y.shape[1:]:  # Keras 3 wants one for each token
            weights = weights[:, tf.newaxis]
        return x, y, tf.broadcast_to(weights, tf.shape(y))

    epochs = tf.data.Dataset.range(epoch, np.iinfo(np.int64).max)
    rows = epochs.flat_map(lambda number: share.rows(order(number))).skip(step * share.local)
    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def shuffled(examples: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """All row numbers in an order that depends on seed and epoch alone."""
    key = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    drawn = tf.random.stateless_uniform([examples], key, minval=None, maxval=None, dtype=tf.int64)
    return tf.argsort(drawn, stable=True)
