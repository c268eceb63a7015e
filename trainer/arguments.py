"""The command line. Knows no TensorFlow, so that `--help` and a mistyped flag are answered at once."""

from __future__ import annotations

import argparse
import math
from typing import NoReturn, Sequence

MAX_SEED = 2**32 - 1
"""The largest seed that NumPy takes."""


class Parser(argparse.ArgumentParser):
    """Answers a wrong argument with one line, not with the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Leave with status 2."""
        self.exit(2, f"trainer: {message} (--help shows all flags)\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the flags; a wrong one ends the program with status 2."""
    parser = Parser(
        prog="python -m trainer",
        description="Train a small convolutional network on images.",
        epilog="Writes checkpoints/, logs/ (TensorBoard), saved_model/ and progress.jsonl here.",
    )
    add = parser.add_argument
    add(
        "--epochs",
        type=count,
        default=12,
        metavar="N",
        help="passes over the training data (default: %(default)s)",
    )
    add(
        "--batch_size",
        type=count,
        default=32,
        metavar="N",
        help="examples per replica and step (default: %(default)s)",
    )
    add(
        "--data",
        default="digits",
        metavar="digits|synthetic|FILE.npz",
        help="the digits shipped with the trainer, made-up images, or a file with the arrays x and y, "
        "or x_train, y_train, x_test and y_test (default: %(default)s)",
    )
    add(
        "--learning_rate",
        type=rate,
        default=0.001,
        metavar="X",
        help="of the Adam optimizer, per replica (default: %(default)s)",
    )
    add(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="of weights, shuffling and dropout (default: %(default)s)",
    )
    return parser.parse_args(argv)


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
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def whole(text: str) -> int:
    """A whole number, with an error that says so."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
