"""Examples to learn from, wherever they lie: they can be counted, chosen by row number, and looked up."""

from __future__ import annotations

from typing import Union

import numpy as np


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


Part = Union[Arrays, Pool]
