"""The data that --data names, checked and split. No TensorFlow: what is no good is refused at once."""

from __future__ import annotations

import argparse
from glob import glob, has_magic
from pathlib import Path
from typing import NamedTuple, Tuple

import numpy as np

from . import images, records, synthetic, text
from .errors import BadInput
from .examples import Part

DIGITS = Path(__file__).with_name("data") / "digits.npz"
"""UCI's handwritten digits; source and licence are in data/README.md."""

SPLIT_SEED = 20221111
"""Fixed and apart from --seed: runs with other seeds are then compared on the same test examples."""

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1
FEWEST = 10
"""Examples below which the three parts would not all have one."""


class Dataset(NamedTuple):
    """What is trained on, what is watched during the training, and what is looked at once, at the end.

    `shape` is that of one input, () until TFRecords were looked into; labels run from 0 to `classes` - 1;
    inputs divided by `scale` lie in -1 to 1.
    """

    name: str
    train: Part
    validation: Part
    test: Part
    shape: Tuple[int, ...] = ()
    classes: int = 0
    scale: float = 1.0
    text: bool = False

    def __str__(self) -> str:
        parts = f"{len(self.train)} train, {len(self.validation)} validation, {len(self.test)} test"
        if self.text:
            return f"{self.name}: {parts}; {self.shape[0]} tokens each, {self.classes} kinds of tokens"
        return f"{self.name}: {parts}; {'x'.join(map(str, self.shape))}, {self.classes} classes"


def load(options: argparse.Namespace) -> Dataset:
    """The data of --data. Raises BadInput with the reason when there is none or it cannot be trained on."""
    name = options.data
    if name == "digits":
        return of_images(name, images.load(DIGITS, "--data digits"))
    if name == "synthetic":
        made = synthetic.tokens(options) if options.model == "transformer" else synthetic.images(options)
        return divide(name, made.part)._replace(**made.about)
    found = files(name)
    if found[0].endswith(".npz"):
        return of_images(name, images.load(Path(name), f"--data {name}"))
    if records.are_in(found):
        return divide(name, records.index(found))
    return divide(name, text.windows(found, options.context))._replace(
        shape=(options.context,), classes=text.TOKENS, text=True
    )


def files(name: str) -> Tuple[str, ...]:
    """The files of a path or a pattern, in order. Raises BadInput when there is none."""
    found = sorted(glob(name, recursive=True)) if has_magic(name) and not Path(name).exists() else [name]
    if not found:
        raise BadInput(f"--data {name}: no file matches")
    for file in found:
        try:
            with open(file, "rb"):
                pass
        except FileNotFoundError:
            known = "digits, synthetic, FILE.npz, FILE.txt or TFRecords"
            raise BadInput(f"--data {name}: no such file ({known})") from None
        except OSError as error:
            raise BadInput(f"--data {file}: {error.strerror}") from None
    return tuple(found)


def of_images(name: str, found: images.Found) -> Dataset:
    """The data set of arrays, with what they tell of themselves."""
    return divide(name, found.examples, found.test)._replace(
        shape=tuple(found.examples.inputs.shape[1:]), classes=found.classes, scale=found.scale
    )


def divide(name: str, examples: Part, test: Part | None = None) -> Dataset:
    """Split at random but always alike: a test part, unless there is one already, then a validation part."""
    if len(examples) < FEWEST:
        raise BadInput(f"--data {name}: {len(examples)} examples are too few, {FEWEST} are the least")
    rows = np.random.RandomState(SPLIT_SEED).permutation(len(examples))
    if test is None:
        held = round(len(rows) * TEST_SHARE)
        test, rows = examples.take(rows[:held]), rows[held:]
    held = max(1, round(len(rows) * VALIDATION_SHARE))
    return Dataset(Path(name).name, examples.take(rows[held:]), examples.take(rows[:held]), test)
