"""The SavedModel: written aside, loaded again and compared before anybody relies on it."""

from __future__ import annotations

import os
import shutil
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow import keras

from .checkpoints import written
from .errors import TrainerError
from .together import Together

FOLDER = "saved_model"
TOLERANCE = {"float32": 1e-4, "float64": 1e-4}
"""How far outputs may lie apart, beside the largest; 16-bit numbers are coarser."""
COARSE = 2e-2


def save(network: keras.Model, sample: np.ndarray, together: Together) -> None:
    """Write ./saved_model and prove it with the raw inputs `sample`; return when all workers are well.

    With several workers all write, as some values are spread over them, but only the chief's is kept.
    Raises TrainerError when it can't be written, or says something else than the network.
    """
    failure = None
    try:
        place = together.place
        aside = f"{FOLDER}.new" if place.chief else f"{FOLDER}.worker{place.rank}"
        write(network, aside)
        expected = np.asarray(network(tf.constant(sample), training=False))
        if place.chief:
            prove(aside, sample, expected, TOLERANCE.get(str(network.compute_dtype), COARSE))
            put(aside)
        shutil.rmtree(aside, ignore_errors=True)
    except TrainerError as error:
        failure = error
    together.all_well(failure is None)
    if failure:
        raise failure


def write(network: keras.Model, folder: str) -> None:
    """Write a SavedModel; Keras 3 calls that an export. Raises TrainerError when it cannot be written."""
    logging.set_verbosity(logging.ERROR)  # Keras 2 warns of its own inner functions
    with written(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
        if getattr(keras, "__version__", "2").startswith("3."):  # tf_keras tells none
            network.export(folder, verbose=False)
        else:
            network.save(folder)


def prove(folder: str, sample: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Load it as anybody would, and feed it. Raises TrainerError when it answers otherwise."""
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    (name, spec), *others = serve.structured_input_signature[1].items()
    if others:
        raise TrainerError(
            f"{FOLDER}/ takes {1 + len(others)} inputs; the trainer can prove one that takes one"
        )
    answer: Any = next(iter(serve(**{name: tf.cast(sample, spec.dtype)}).values())).numpy()
    apart = np.max(np.abs(answer.astype(np.float64) - expected)) if answer.shape == expected.shape else np.inf
    if not apart <= tolerance * max(1.0, float(np.max(np.abs(expected)))):
        raise TrainerError(f"the SavedModel answers otherwise than the network: {apart:.3g} apart; not kept")


def put(folder: str) -> None:
    """Let it take the place of an older one. Raises TrainerError when something else is in the way."""
    with written(FOLDER):
        old = f"{FOLDER}.old"
        shutil.rmtree(old, ignore_errors=True)
        if os.path.lexists(FOLDER):
            if not os.path.isdir(FOLDER):
                raise NotADirectoryError(f"{FOLDER} is not a directory")
            os.rename(FOLDER, old)
        os.rename(folder, FOLDER)
        shutil.rmtree(old, ignore_errors=True)
