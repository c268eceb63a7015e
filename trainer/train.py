"""The training from the choice of devices to the SavedModel."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from contextlib import closing
from typing import List

import tensorflow as tf
from absl import logging
from tensorflow import keras

from . import callbacks, model, progress, strategy
from .checkpoints import Checkpoints, written
from .dataset import Dataset
from .errors import BadInput
from .pipeline import Batches
from .stopping import Stop

SAVED_MODEL = "saved_model"
LOGS = "logs"


def train(options: argparse.Namespace, data: Dataset, stop: Stop) -> float:
    """Train, save and return the accuracy on the test part.

    Raises BadInput when the batch is larger than the data, TrainerError when the loss is no number any more.
    """
    devices = strategy.gpus()
    place = strategy.choose(devices)
    replicas = place.num_replicas_in_sync
    keras.utils.set_random_seed(options.seed)
    size = global_batch(options.batch_size, replicas, len(data.train.labels))
    sets = Batches.of(data, options.batch_size, replicas)
    plan = progress.Plan(options.epochs, len(sets.train), len(data.train.labels))
    say(f"TensorFlow {tf.__version__}, Python {platform.python_version()}, on {strategy.describe(devices)}")
    say(f"{data}; {plan.epochs} epochs of {plan.steps} steps")
    rate = options.learning_rate * replicas  # larger steps for larger batches: as far in as many epochs
    say(f"batch {size} ({options.batch_size} x {replicas}), learning rate {rate:g}")
    with place.scope():
        network = model.build(data.shape, data.classes, data.scale)
        model.compile_for_training(network, rate)
    fit(network, sets, plan, stop)
    accuracy = network.evaluate(sets.test, verbose=0, return_dict=True)["accuracy"]
    save(network)
    return float(accuracy)


def global_batch(per_replica: int, replicas: int, examples: int) -> int:
    """Examples a step over all replicas. Raises BadInput when there are not so many."""
    size = per_replica * replicas
    if size > examples:
        raise BadInput(f"--batch_size {per_replica}: {size} examples a step, but {examples} to train on")
    return size


def fit(network: keras.Model, sets: Batches, plan: progress.Plan, stop: Stop) -> None:
    """All epochs. On a terminal Keras draws its progress bar; elsewhere each epoch is one line."""
    bar = sys.stdout.isatty()
    save = callbacks.Save(Checkpoints(network), stop)
    with closing(progress.Journal(progress.path())) as journal, stop.postponed():
        report = callbacks.Report(plan, journal, quiet=bar)
        network.fit(
            sets.train,
            validation_data=sets.validation,
            epochs=plan.epochs,
            shuffle=False,  # the batches are shuffled already
            callbacks=[report, save, *tensorboards()],
            verbose=1 if bar else 0,
        )


def tensorboards() -> List[keras.callbacks.TensorBoard]:
    """The writer of ./logs, where the package TensorBoard is installed: newer TensorFlows do not bring it."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        missing = "no ./logs, as TensorBoard is not installed (pip install tensorboard)"
        print(f"trainer: {missing}", file=sys.stderr, flush=True)
        return []
    os.makedirs(LOGS, exist_ok=True)
    return [keras.callbacks.TensorBoard(LOGS, write_graph=False)]


def save(network: keras.Model) -> None:
    """Write the SavedModel; Keras 3 calls that an export. Raises TrainerError when it cannot be written."""
    logging.set_verbosity(logging.ERROR)  # Keras 2 warns of its own inner functions
    with written(SAVED_MODEL):
        if hasattr(network, "export"):
            network.export(SAVED_MODEL, verbose=False)
        else:
            network.save(SAVED_MODEL)
    say(f"saved {SAVED_MODEL}/")


def say(text: str) -> None:
    """A line of the log, there at once for whoever follows it."""
    print(text, flush=True)
