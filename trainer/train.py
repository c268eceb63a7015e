"""The training from the choice of devices to the SavedModel."""

from __future__ import annotations

import argparse
import platform
import sys
from contextlib import closing
from typing import List

import tensorflow as tf
from tensorflow import keras

from . import callbacks, checkpoints, ending, model, progress, scaling, strategy
from .beat import Beat
from .cluster import Cluster
from .course import Course
from .dataset import Dataset
from .errors import BadInput
from .pipeline import Feeds
from .position import Position
from .scalars import scalars
from .stopping import Stop
from .strategy import Place
from .together import Together, losing_nobody

COMPARED = 32
"""Test examples with which the SavedModel is proven."""


def train(options: argparse.Namespace, data: Dataset, who: Cluster, stop: Stop) -> None:
    """Train, save, and say how well it does on the test part.

    Raises BadInput when the batch is larger than the data, TrainerError when the loss is no number any more,
    when something can't be written or read, or when another worker has gone.
    """
    place = strategy.choose(options, who)
    stop.hear()
    with losing_nobody(place.workers):
        train_at(place, options, data, stop)


def train_at(place: Place, options: argparse.Namespace, data: Dataset, stop: Stop) -> None:
    """The same, at this place."""
    feeds = Feeds(data, place, options)
    check_batch(options.batch_size, feeds)
    rate = scaling.plan(options, place.replicas, feeds.steps)
    plan = progress.Plan(options.epochs, feeds.steps, feeds.examples, feeds.global_batch)
    say(f"TensorFlow {tf.__version__}, Python {platform.python_version()}, on {place}")
    say(f"{feeds.data}; {plan.epochs} epochs of {plan.steps} steps")
    say(f"batch {feeds.global_batch} ({options.batch_size} x {place.replicas}), {rate}")
    with place.strategy.scope():
        network = model.build(options, feeds.data)
        model.compile(network, options, rate)
    if hasattr(network, "distribute_reduction_method"):
        network.distribute_reduction_method = "first"  # tf_keras adds up means that are everybody's already
    together = Together(place)
    kept = checkpoints.Checkpoints(network, together, options.keep)
    course = Course(plan, take_up(kept, plan, options.fresh))
    save = callbacks.Save(course, kept, Beat(stop, together), options.save_every)
    with stop.postponed():
        fit(network, feeds, course, save, place)
        tested = network.evaluate(
            feeds.test(), steps=feeds.test_steps, callbacks=[save], verbose=0, return_dict=True
        )
        save.last_call()
    ending.save(network, feeds.sample(COMPARED), together)
    say(f"saved {ending.FOLDER}/" if place.chief else "the chief has saved the model")
    say(f"test accuracy {float(model.exact(tested)['accuracy']):.4f}")
    together.farewell()


def check_batch(per_replica: int, feeds: Feeds) -> None:
    """Raise BadInput when there are fewer examples than a step takes."""
    size, examples = feeds.global_batch, feeds.examples
    if size > examples:
        raise BadInput(f"--batch_size {per_replica}: {size} examples a step, but {examples} to train on")


def take_up(kept: checkpoints.Checkpoints, plan: progress.Plan, fresh: bool) -> Position:
    """Where to begin: at the newest checkpoint here, unless it is to begin anew."""
    if fresh and kept.kept:
        checkpoints.remove()
    name = kept.restore()
    if name is None:
        return Position(steps=plan.steps)
    begun = kept.position.fitting(plan.steps)
    say(f"goes on from {name}: {begun} (--fresh begins anew)")
    return begun


def fit(network: keras.Model, feeds: Feeds, course: Course, save: callbacks.Save, place: Place) -> None:
    """All epochs that are left; each is a line, but on a terminal Keras draws its progress bar."""
    bar = sys.stdout.isatty()
    goes_on = course.begun != Position(steps=course.plan.steps)
    with closing(progress.Journal(progress.path(), goes_on)) as journal, scalars(place, course) as more:
        report = callbacks.Report(course, journal, quiet=bar)
        run(network, feeds, course, [course, report, save, *more], verbose=1 if bar else 0)


def run(
    network: keras.Model,
    feeds: Feeds,
    course: Course,
    beside: List[keras.callbacks.Callback],
    verbose: int,
) -> None:
    """The rest of the epoch that had been begun, then the whole ones."""
    begun, plan = course.begun, course.plan

    def epochs(first: int, last: int, step: int = 0) -> None:
        network.fit(
            feeds.train(first, step),
            steps_per_epoch=plan.steps - step,
            validation_data=feeds.validation(),
            validation_steps=feeds.validation_steps,
            initial_epoch=first,
            epochs=last,
            shuffle=False,  # the batches are shuffled already
            callbacks=beside,
            verbose=verbose,
        )

    if begun.step == plan.steps:
        validate(network, feeds, course, beside)
    elif begun.step:
        epochs(begun.epoch, begun.epoch + 1, begun.step)
    first = begun.epoch + (begun.step > 0)
    if first < plan.epochs:
        epochs(first, plan.epochs)


def validate(
    network: keras.Model, feeds: Feeds, course: Course, beside: List[keras.callbacks.Callback]
) -> None:
    """The end of an epoch whose steps were all done: Keras can't fit none, so it is put together here."""
    calls = keras.callbacks.CallbackList(beside, model=network)
    calls.on_train_begin()
    calls.on_epoch_begin(course.epoch)
    found = network.evaluate(
        feeds.validation(), steps=feeds.validation_steps, callbacks=beside, verbose=0, return_dict=True
    )
    logs = {**course.means(), **{f"val_{name}": value for name, value in found.items()}}
    calls.on_epoch_end(course.epoch, logs)
    calls.on_train_end()


def say(text: str) -> None:
    """A line of the log, there at once for whoever follows it."""
    print(text, flush=True)
