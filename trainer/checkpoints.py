"""What a training can be taken up from."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

import tensorflow as tf
from tensorflow import keras

from .errors import TrainerError

FOLDER = "checkpoints"
KEEP = 3


class Checkpoints:
    """The last few states of weights and optimizer in ./checkpoints, and how many epochs were finished then.

    `tf.train.latest_checkpoint("checkpoints")` names the newest. TensorFlow writes it aside and only then
    names it in the file `checkpoint`, so a killed training leaves the one before.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.epochs_done = tf.Variable(0, dtype=tf.int64)
        state = tf.train.Checkpoint(model=model, optimizer=model.optimizer, epochs_done=self.epochs_done)
        self.manager = tf.train.CheckpointManager(state, FOLDER, max_to_keep=KEEP)

    def save(self, epochs_done: int) -> int:
        """Write one, named by the training step, and return that step. Raises TrainerError if it can't."""
        self.epochs_done.assign(epochs_done)
        step = int(self.model.optimizer.iterations.numpy())
        with written(FOLDER):
            self.manager.save(checkpoint_number=step)
        return step


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
