"""The kinds of values that flags take. Each raises ArgumentTypeError with what it must be."""

from __future__ import annotations

import argparse
import math
from typing import Tuple

MAX_SEED = 2**32 - 1
"""The largest seed that NumPy takes."""


def count(text: str) -> int:
    """A whole number from 1."""
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def seed(text: str) -> int:
    """A whole number that NumPy takes as a seed."""
    number = whole(text)
    if not 0 <= number <= MAX_SEED:
        raise argparse.ArgumentTypeError(f"must be from 0 to {MAX_SEED}, not {text}")
    return number


def rate(text: str) -> float:
    """A finite number above 0."""
    number = real(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def amount(text: str) -> float:
    """A finite number from 0."""
    number = real(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0, not {text!r}")
    return number


def shape(text: str) -> Tuple[int, int, int]:
    """Height, width and channels of an image, written 224x224x3; without channels there is one."""
    words = text.split("x")
    if len(words) not in (2, 3) or not all(word.isdigit() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"must be HxW or HxWxC, as 224x224x3, not {text!r}")
    height, width, channels = [int(word) for word in [*words, "1"][:3]]
    return height, width, channels


def network(text: str) -> str:
    """`cnn`, `transformer`, or a module and a function in it."""
    module, colon, function = text.partition(":")
    names = [*module.split("."), function]
    if text not in ("cnn", "transformer") and not (colon and all(name.isidentifier() for name in names)):
        raise argparse.ArgumentTypeError(f"must be cnn, transformer or MODULE:FUNCTION, not {text!r}")
    return text


def whole(text: str) -> int:
    """A whole number, with an error that says so."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None


def real(text: str) -> float:
    """A number, or nan."""
    try:
        return float(text)
    except ValueError:
        return math.nan
