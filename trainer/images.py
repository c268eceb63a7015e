"""Images and labels from an .npz file, checked. No TensorFlow: a wrong file is refused at once."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Dict, NamedTuple, Optional

import numpy as np

from .errors import BadInput
from .examples import Arrays


class Found(NamedTuple):
    """Images (N, height, width, channels) and labels (N,), and a test part where the file has one."""

    examples: Arrays
    test: Optional[Arrays]

    @property
    def classes(self) -> int:
        """How many classes there are: labels run from 0 to one less."""
        parts = [self.examples, self.test] if self.test else [self.examples]
        return 1 + max(int(part.labels.max()) for part in parts)

    @property
    def scale(self) -> float:
        """What to divide pixels by, so that they lie in -1 to 1."""
        images = self.examples.inputs
        return max(abs(float(images.max())), abs(float(images.min()))) or 1.0


def load(path: Path, where: str) -> Found:
    """The arrays x and y, or x_train, y_train, x_test and y_test. Raises BadInput."""
    arrays = read(path, where)
    if "x_train" not in arrays:
        return Found(part(arrays, "x", "y", where), None)
    train, test = part(arrays, "x_train", "y_train", where), part(arrays, "x_test", "y_test", where)
    if train.inputs.shape[1:] != test.inputs.shape[1:]:
        shapes = f"images of x_train are {train.inputs.shape[1:]}, of x_test {test.inputs.shape[1:]}"
        raise BadInput(f"{where}: {shapes}")
    return Found(train, test)


def read(path: Path, where: str) -> Dict[str, np.ndarray]:
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


def part(arrays: Dict[str, np.ndarray], x: str, y: str, where: str) -> Arrays:
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
    return Arrays(images, labels)


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
