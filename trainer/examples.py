"""Examples to learn from, wherever they lie: they can be counted, chosen by row number, and looked up."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import numpy as np

from .files import Files


class Arrays:
    """In memory: images (N, height, width, channels) and labels (N,), or tokens (N, T) and what follows."""

    def __init__(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.inputs = inputs
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> Arrays:
        """These rows, in this order."""
        return Arrays(self.inputs[rows], self.labels[rows])


class Pool:
    """A few examples, met again and again, in place of many: to measure speed without much memory."""

    def __init__(self, few: Arrays, rows: np.ndarray) -> None:
        self.few = few
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: np.ndarray) -> Pool:
        """These rows, in this order."""
        return Pool(self.few, self.rows[rows])


class Spots(NamedTuple):
    """Where records lie: the numbers of their files, their first bytes there, and how many they have."""

    file: np.ndarray
    offset: np.ndarray
    length: np.ndarray


class Records:
    """Records of TFRecord files, read when they are looked up; the system's cache keeps those read lately.

    `layout` is what a look into the first record told of all of them (see `decode.py`).
    """

    def __init__(self, files: Files, spots: Spots, layout: Any = None) -> None:
        self.files = files
        self.spots = spots
        self.layout = layout

    def __len__(self) -> int:
        return len(self.spots.file)

    def take(self, rows: np.ndarray) -> Records:
        """These rows, in this order."""
        return Records(self.files, Spots(*(column[rows] for column in self.spots)), self.layout)

    def laid(self, layout: Any) -> Records:
        """The same, with what is known of all of them."""
        return Records(self.files, self.spots, layout)

    def read(self, rows: np.ndarray) -> np.ndarray:
        """The bytes of these rows, as objects. Raises OSError, also for a file that has become shorter."""
        spots = zip(*(column[rows].tolist() for column in self.spots))
        return np.array([self.files.read(*spot) for spot in spots], dtype=object)

    def where(self, row: int) -> str:
        """File and first byte of a row, for people."""
        return f"{self.files.paths[self.spots.file[row]]}, record at byte {self.spots.offset[row]}"


Part = Union[Arrays, Pool, Records]
