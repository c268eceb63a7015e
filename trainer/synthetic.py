"""Made-up data of any shape: for trying things out and for measuring speed."""

from __future__ import annotations

import argparse
from typing import Any, Dict, NamedTuple

import numpy as np

from .errors import BadInput
from .examples import Arrays, Pool

SEED = 20221111
SHAPE = (28, 28, 1)
EXAMPLES = 2048
POOL_BYTES = 64 * 2**20
"""More images than fit in there are the same ones again."""


class Made(NamedTuple):
    """The examples, and what a Dataset tells of them."""

    part: Pool
    about: Dict[str, Any]


def images(options: argparse.Namespace) -> Made:
    """Images of --shape: a pattern for each of --classes, and noise."""
    shape, classes = options.shape or SHAPE, options.classes or 10
    count = options.examples or EXAMPLES
    random = np.random.RandomState(SEED)
    held = min(count, max(classes, POOL_BYTES // int(np.prod(shape))))
    labels = np.arange(held, dtype=np.int64) % classes
    few = np.stack([picture(random, label, shape) for label in labels])
    about = {"shape": shape, "classes": classes, "scale": 255.0}
    return Made(Pool(Arrays(few, labels), np.arange(count) % held), about)


def picture(random: np.random.RandomState, label: int, shape: Any) -> np.ndarray:
    """An image of this class: its pattern, and noise."""
    pattern = np.random.RandomState(label).randint(64, 192, shape)
    return (pattern + random.randint(-64, 64, shape)).astype(np.uint8)


def tokens(options: argparse.Namespace) -> Made:
    """Sequences of --context tokens out of --classes, each following from the one before. Raises BadInput."""
    classes, count = options.classes or 256, options.examples or EXAMPLES
    if classes < 2:
        raise BadInput("--classes 1: a language of one token has nothing to learn")
    first = np.random.RandomState(SEED).randint(0, classes, count)
    steps = np.arange(options.context + 1)
    sequences = ((first[:, None] + 7 * steps) % classes).astype(np.int32)
    few = Arrays(sequences[:, :-1], sequences[:, 1:])
    about = {"shape": (options.context,), "classes": classes, "text": True}
    return Made(Pool(few, np.arange(count)), about)
