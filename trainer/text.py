"""Text for the language model: its bytes are the tokens, so there is no tokenizer to keep."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from .errors import BadInput
from .examples import Arrays

TOKENS = 256
GZIP = b"\x1f\x8b"
LOOKED_AT = 65536
"""Bytes at the start of a file in which a zero byte shows that it is no text."""


def windows(files: Sequence[str], context: int) -> Arrays:
    """Each byte is predicted once, from those before it in its window of `context` bytes.

    What doesn't fill a window at the end of a file is left out. Raises BadInput for what is no text.
    """
    found = [cut(read(file), context) for file in files]
    inputs, labels = (np.concatenate(column) for column in zip(*found))
    return Arrays(inputs, labels)


def cut(text: np.ndarray, context: int) -> Sequence[np.ndarray]:
    """Windows of a text, and each byte's next."""
    count = max(0, len(text) - 1) // context
    used = count * context
    return text[:used].reshape(count, context), text[1 : used + 1].reshape(count, context)


def read(file: str) -> np.ndarray:
    """The bytes of a file. Raises BadInput when it can't be read or holds no text."""
    try:
        found = np.fromfile(file, dtype=np.uint8)
    except OSError as error:
        raise BadInput(f"--data {file}: {error.strerror or error}") from None
    if found[:2].tobytes() == GZIP:
        raise BadInput(f"--data {file}: is compressed; unpack it first")
    if not found[:LOOKED_AT].all():
        raise BadInput(f"--data {file}: neither text nor TFRecords nor an .npz file")
    return found
