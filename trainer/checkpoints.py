"""What a training can be taken up from: written by the chief alone, read by all."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Optional

import tensorflow as tf
from tensorflow import keras

from .errors import TrainerError
from .position import Position
from .together import Together

FOLDER = "checkpoints"
BEST = "best"


class Checkpoints:
    """The last few states of network, optimizer and position in ./checkpoints; the best in checkpoints/best.

    TensorFlow writes one aside and only then names it in the file `checkpoint`: a training that is killed
    leaves the one before. With several workers all must save, as some values are spread over them; the
    chief's files are kept, those of the others are removed at once.
    """

    def __init__(self, network: keras.Model, together: Together, keep: int) -> None:
        self.network = network
        self.together = together
        self._position = tf.Variable("", dtype=tf.string, trainable=False)
        self.kept = together.place.chief
        self.folder = Path(FOLDER if self.kept else f"{FOLDER}.worker{together.place.rank}")
        self.all = tf.train.Checkpoint(model=network, optimizer=network.optimizer, position=self._position)
        self.manager = tf.train.CheckpointManager(self.all, str(self.folder), keep)
        self.best = tf.train.CheckpointManager(self.all, str(self.folder / BEST), 1)
        self.number = -1

    @property
    def position(self) -> Position:
        """The one that was restored or saved last."""
        return Position.of(self._position.numpy().decode())

    def save(self, position: Position, best: bool = False) -> int:
        """Write one, unless it was the last one too, and return the training step. Raises TrainerError.

        It has the step's number, or the next: one that takes the place of another of its name can be torn.
        """
        step = int(self.network.optimizer.iterations.numpy())
        number = max(step, self.number + 1)
        with written(str(self.folder)):
            if position.text() != self._position.numpy().decode():
                self._position.assign(position.text())
                self.manager.save(checkpoint_number=number)
                self.number = number
            if best:
                self.best.save(checkpoint_number=step)
        self._clear()
        return step

    def restore(self) -> Optional[str]:
        """Take up the chief's newest checkpoint on all workers; return its name, None where there is none.

        The other workers get its files from the chief: they need not see its disk. Raises TrainerError.
        """
        newest = tf.train.latest_checkpoint(FOLDER) if self.kept else None
        files = sorted(Path(FOLDER).glob(f"{Path(newest).name}.*")) if newest else []
        self._clear()
        if not self.kept:
            self.folder.mkdir()
        here = self.together.share(files, self.folder)
        if here:
            self._read(str(here[0].with_suffix("")))
        self._clear()
        return str(Path(FOLDER) / here[0].stem) if here else None

    def _read(self, path: str) -> None:
        """Set all values, those of the optimizer too. Raises TrainerError when they are another network's."""
        try:
            with self.together.place.strategy.scope():
                make_slots(self.network)
                with same_rate(self.network.optimizer):
                    self.all.restore(path).assert_existing_objects_matched()
        except (AssertionError, ValueError, LookupError, RuntimeError, tf.errors.OpError) as error:
            raise TrainerError(
                f"{path} cannot be taken up: it is damaged, or of another network (--fresh begins anew)"
            ) from error
        self.number = int(path.rpartition("-")[2])

    def _clear(self) -> None:
        """Leave nothing behind on a worker that isn't the chief."""
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def same_rate(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Keep the learning rate of the flags: a checkpoint has the one of its own training."""
    schedule = keras.optimizers.schedules.LearningRateSchedule
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of mixed precision
    rate = optimizer.learning_rate
    fixed = not isinstance(getattr(optimizer, "_learning_rate", rate), schedule)
    value = float(tf.convert_to_tensor(rate)) if fixed else None
    yield
    if value is not None:
        optimizer.learning_rate = value


def make_slots(network: keras.Model) -> None:
    """Make the optimizer's variables, which it else makes at the first step."""
    weights: List[tf.Variable] = network.trainable_variables
    optimizer = network.optimizer
    if hasattr(optimizer, "build"):
        optimizer.build(weights)
    else:  # Keras 2 before 2.11
        optimizer._create_all_weights(weights)


def remove() -> None:
    """Begin anew. Raises TrainerError when that is forbidden."""
    with written(FOLDER):
        if os.path.lexists(FOLDER):
            shutil.rmtree(FOLDER)


@contextmanager
def written(folder: str) -> Iterator[None]:
    """Turn TensorFlow's errors about a full disk or a forbidden folder into TrainerError."""
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        # "{{node ...}} checkpoints/ckpt-41_temp/...; No space left on device [Op:SaveV2]"
        reason = str(getattr(error, "message", None) or error).splitlines()[0]
        reason = reason.split("; ")[-1].split(" [Op:")[0]
        raise TrainerError(f"cannot write {folder}/: {reason}") from error
