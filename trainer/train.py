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

from . import callbacks, model, progress, scaling, strategy
from .checkpoints import Checkpoints, written
from .cluster import Cluster
from .dataset import Dataset
from .errors import BadInput
from .pipeline import Feeds
from .stopping import Stop

SAVED_MODEL = "saved_model"
LOGS = "logs"


def train(options: argparse.Namespace, data: Dataset, who: Cluster, stop: Stop) -> float:
    """Train, save and return the accuracy on the test part.

    Raises BadInput when the batch is larger than the data, TrainerError when the loss is no number any more.
    """
    place = strategy.choose(options, who)
    feeds = Feeds(data, place, options)
    check_batch(options.batch_size, feeds)
    rate = scaling.plan(options, place.replicas, feeds.steps)
    plan = progress.Plan(options.epochs, feeds.steps, feeds.examples)
    say(f"TensorFlow {tf.__version__}, Python {platform.python_version()}, on {place}")
    say(f"{feeds.data}; {plan.epochs} epochs of {plan.steps} steps")
    say(f"batch {feeds.global_batch} ({options.batch_size} x {place.replicas}), {rate}")
    with place.strategy.scope():
        network = model.build(options, feeds.data)
        model.compile(network, options, rate)
    fit(network, feeds, plan, stop)
    tested = network.evaluate(feeds.test(), steps=feeds.test_steps, verbose=0, return_dict=True)
    save(network)
    return float(model.exact(tested)["accuracy"])


def check_batch(per_replica: int, feeds: Feeds) -> None:
    """Raise BadInput when there are fewer examples than a step takes."""
    size, examples = feeds.global_batch, feeds.examples
    if size > examples:
        raise BadInput(f"--batch_size {per_replica}: {size} examples a step, but {examples} to train on")


def fit(network: keras.Model, feeds: Feeds, plan: progress.Plan, stop: Stop) -> None:
    """All epochs. On a terminal Keras draws its progress bar; elsewhere each epoch is one line."""
    bar = sys.stdout.isatty()
    save = callbacks.Save(Checkpoints(network), stop)
    with closing(progress.Journal(progress.path())) as journal, stop.postponed():
        report = callbacks.Report(plan, journal, quiet=bar)
        network.fit(
            feeds.train(),
            steps_per_epoch=feeds.steps,
            validation_data=feeds.validation(),
            validation_steps=feeds.validation_steps,
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
        if keras.__version__.startswith("3."):
            network.export(SAVED_MODEL, verbose=False)
        else:
            network.save(SAVED_MODEL)
    say(f"saved {SAVED_MODEL}/")


def say(text: str) -> None:
    """A line of the log, there at once for whoever follows it."""
    print(text, flush=True)
