"""Images and labels as NumPy arrays, checked and split. No TensorFlow: a wrong file is refused at once."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Dict, NamedTuple, Tuple

import numpy as np

from .errors import BadInput

DIGITS = Path(__file__).with_name("data") / "digits.npz"
"""UCI's handwritten digits; source and licence are in data/README.md."""

SPLIT_SEED = 20221111
"""Fixed and apart from --seed: runs with other seeds are then compared on the same test examples."""

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1
FEWEST = 10
"""Examples below which the three parts would not all have one."""

Arrays = Dict[str, np.ndarray]


class Part(NamedTuple):
    """Images of shape (N, height, width, channels) and their labels of shape (N,), int64."""

    images: np.ndarray
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        """These rows, in this order."""
        return Part(self.images[rows], self.labels[rows])


class Dataset(NamedTuple):
    """What is trained on, what is watched during the training, and what is looked at once, at the end."""

    name: str
    train: Part
    validation: Part
    test: Part

    @property
    def shape(self) -> Tuple[int, ...]:
        """Height, width and channels of an image."""
        return tuple(self.train.images.shape[1:])

    @property
    def classes(self) -> int:
        """How many classes there are: labels run from 0 to one less."""
        return 1 + max(int(part.labels.max()) for part in (self.train, self.validation, self.test))

    @property
    def scale(self) -> float:
        """What to divide pixels by, so that they lie in -1 to 1."""
        largest = max(abs(float(self.train.images.max())), abs(float(self.train.images.min())))
        return largest or 1.0

    def __str__(self) -> str:
        height, width, channels = self.shape
        train, validation, test = (len(part.labels) for part in (self.train, self.validation, self.test))
        return (
            f"{self.name}: {train} train, {validation} validation, {test} test; "
            f"{height}x{width}x{channels}, {self.classes} classes"
        )


def load(name: str) -> Dataset:
    """The data set of this name (`digits`, `synthetic`) or in this .npz file.

    Raises BadInput with the reason when there is none or it cannot be trained on.
    """
    if name == "synthetic":
        return divide(name, synthetic())
    where = f"--data {name}"
    arrays = read(DIGITS if name == "digits" else Path(name), where)
    if "x_train" not in arrays:
        return divide(name, part(arrays, "x", "y", where))
    train, test = part(arrays, "x_train", "y_train", where), part(arrays, "x_test", "y_test", where)
    if train.images.shape[1:] != test.images.shape[1:]:
        raise BadInput(
            f"{where}: images of x_train are {train.images.shape[1:]}, of x_test {test.images.shape[1:]}"
        )
    return divide(name, train, test)


def divide(name: str, examples: Part, test: Part | None = None) -> Dataset:
    """Split at random but always alike: a test part, unless there is one already, then a validation part."""
    if len(examples.labels) < FEWEST:
        raise BadInput(f"--data {name}: {len(examples.labels)} examples are too few, {FEWEST} are the least")
    rows = np.random.RandomState(SPLIT_SEED).permutation(len(examples.labels))
    if test is None:
        held = round(len(rows) * TEST_SHARE)
        test, rows = examples.take(rows[:held]), rows[held:]
    held = max(1, round(len(rows) * VALIDATION_SHARE))
    return Dataset(Path(name).name, examples.take(rows[held:]), examples.take(rows[:held]), test)


def synthetic(examples: int = 2048, side: int = 28, classes: int = 10) -> Part:
    """Made-up grey images, a noisy pattern for each class: for trying things out and for timing."""
    random = np.random.RandomState(SPLIT_SEED)
    patterns = random.uniform(0, 255, (classes, side, side, 1))
    labels = random.randint(0, classes, examples).astype(np.int64)
    noisy = patterns[labels] + random.normal(0, 64, (examples, side, side, 1))
    return Part(np.clip(noisy, 0, 255).astype(np.uint8), labels)


def read(path: Path, where: str) -> Arrays:
    """All arrays of an .npz file. Raises BadInput when it is missing or is no such file."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except FileNotFoundError:
        raise BadInput(f"{where}: no such file (digits, synthetic, or the path of an .npz file)") from None
    except OSError as error:
        raise BadInput(f"{where}: {error.strerror or error}") from None
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error):
        # np.load takes what it doesn't know for a pickle, and hands out a bare array for an .npy file.
        raise BadInput(f"{where}: not an .npz file of plain arrays (make one with numpy.savez)") from None


def part(arrays: Arrays, x: str, y: str, where: str) -> Part:
    """The images `x` and the labels `y`, checked. Raises BadInput."""
    for key in (x, y):
        if key not in arrays:
            held = ", ".join(sorted(arrays)) or "nothing"
            raise BadInput(f"{where}: has no array {key!r}; it holds {held}")
    images, labels = pixels(arrays[x], x, where), numbers(arrays[y], y, where)
    if len(images) != len(labels):
        raise BadInput(f"{where}: {x} has {len(images)} images, but {y} has {len(labels)} labels")
    if labels.max() >= len(labels):
        raise BadInput(
            f"{where}: {y} has a label {labels.max()} for {len(labels)} examples; number the classes from 0"
        )
    return Part(images, labels)


def pixels(images: np.ndarray, key: str, where: str) -> np.ndarray:
    """Images with a channel axis. Raises BadInput for other shapes and for what is no number."""
    if images.ndim not in (3, 4) or 0 in images.shape:
        raise BadInput(
            f"{where}: {key} has shape {images.shape}, not (N, height, width) or (N, height, width, channels)"
        )
    if images.dtype.kind not in "buif":
        raise BadInput(f"{where}: {key} holds {images.dtype}, not numbers")
    if not np.isfinite(images).all():
        raise BadInput(f"{where}: {key} holds values that are not finite (nan or inf)")
    return images[..., np.newaxis] if images.ndim == 3 else images


def numbers(labels: np.ndarray, key: str, where: str) -> np.ndarray:
    """Labels as a vector of whole numbers from 0. Raises BadInput."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise BadInput(f"{where}: {key} has shape {labels.shape}, not (N,)")
    whole = labels.dtype.kind in "bui"
    if not whole or labels.min() < 0:
        wrong = f"{labels.min()}" if whole else f"{labels.dtype}"
        raise BadInput(f"{where}: {key} must hold class numbers (0, 1, 2, ...), not {wrong}")
    return labels.astype(np.int64)
