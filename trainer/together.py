"""What the workers of one training do at the same moment: agree, wait, and share what the chief has.

Every worker must call the same methods in the same order: each call waits for all the others.
"""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, List, Sequence

import numpy as np
import tensorflow as tf

from .errors import TrainerError
from .strategy import Place

CHUNK = 1 << 20
"""Bytes that go to the other workers at once."""
FAREWELL = 5.0
"""Seconds to wait for a last word of the others, when all is done."""


class Together:
    """The workers of a training. With one worker nothing waits for anything."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.alone = place.workers == 1

    def totals(self, *numbers: float) -> List[float]:
        """Return the sums of these numbers over all workers, the same on each. Counts to 2**53 are exact."""
        return list(numbers) if self.alone else self._sum(np.array(numbers, np.float64)).tolist()

    def wait(self) -> None:
        """Return when all workers are here."""
        self.totals(1)

    def all_well(self, well: bool) -> None:
        """Return when all workers are here and well. Raises TrainerError when another one isn't."""
        if self.totals(0 if well else 1)[0] and well:
            raise TrainerError("another worker failed; its own log says why")

    def share(self, files: Sequence[Path], folder: Path) -> List[Path]:
        """Copy the chief's `files` into `folder` of each other worker; return where they lie on this one."""
        if self.alone:
            return list(files)
        chief = self.place.chief
        told = json.dumps([[file.name, file.stat().st_size] for file in files]) if chief else ""
        for name, size in json.loads(self.from_chief(told.encode())):
            self._copy(name, size, files, folder)
        return list(files) if chief else sorted(folder.iterdir())

    def from_chief(self, data: bytes) -> bytes:
        """Return the chief's `data` on every worker."""
        (size,) = self.totals(len(data) if self.place.chief else 0)
        return b"".join(
            self._piece(data[start : start + CHUNK], min(CHUNK, int(size) - start))
            for start in range(0, int(size), CHUNK)
        )

    def farewell(self) -> None:
        """Wait for the others once more, so that nobody leaves while another still needs an answer.

        Whoever comes here knows from the meeting before that all others have done their work: an error now
        means only that they have left already.
        """
        if self.alone:
            return
        last = threading.Thread(target=self._last_word, daemon=True)
        last.start()
        last.join(FAREWELL)

    def _last_word(self) -> None:
        with suppress(tf.errors.OpError):
            self.wait()

    def _copy(self, name: str, size: int, files: Sequence[Path], folder: Path) -> None:
        source = next((file for file in files if file.name == name), os.devnull)
        target = os.devnull if self.place.chief else folder / name
        with open(source, "rb") as read, open(target, "wb") as to:
            for start in range(0, size, CHUNK):
                to.write(self._piece(read.read(CHUNK), min(CHUNK, size - start)))

    def _piece(self, data: bytes, size: int) -> bytes:
        """At most CHUNK bytes of the chief's; as floats, which every way of communicating can add up."""
        mine = np.frombuffer(data, np.uint8) if self.place.chief else np.zeros(size, np.uint8)
        return self._sum(mine.astype(np.float32)).astype(np.uint8).tobytes()

    def _sum(self, values: np.ndarray) -> np.ndarray:
        summed = self.place.strategy.reduce(tf.distribute.ReduceOp.SUM, tf.constant(values), axis=None)
        return summed.numpy()


@contextmanager
def losing_nobody(workers: int) -> Iterator[None]:
    """Turn TensorFlow's error about a worker that has gone into TrainerError."""
    try:
        yield
    except (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.FailedPreconditionError,
        tf.errors.InternalError,
    ) as error:
        if workers == 1:
            raise
        raise TrainerError(f"lost another worker: {reason(str(error.message))}") from error


def reason(message: str) -> str:
    """The line of TensorFlow's words that says why; above it stands where."""
    lines = [line for line in re.sub(r"\{\{.*?\}\} ?", "", message).splitlines() if line.strip()]
    told = [
        line for line in lines if not line.startswith(("Graph execution error", "Detected at", "\t", " "))
    ]
    return (told or lines or ["TensorFlow does not say why"])[0].strip()
