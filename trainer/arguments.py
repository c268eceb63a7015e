"""The command line. Knows no TensorFlow, so that `--help` and a mistyped flag are answered at once."""

from __future__ import annotations

import argparse
from typing import NoReturn, Sequence

from .kinds import amount, count, network, rate, seed, shape

DESCRIPTION = "Train a network on images or text: on one device, on all GPUs of a host, or on several hosts."
EPILOG = (
    "On several hosts each worker finds the others in TF_CONFIG, as `orch train --hosts` sets it. "
    "Writes checkpoints/, logs/ (TensorBoard), saved_model/ and progress.jsonl here."
)


class Parser(argparse.ArgumentParser):
    """Answers a wrong argument with one line, not with the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Leave with status 2."""
        self.exit(2, f"trainer: {message} (--help shows all flags)\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the flags; a wrong one ends the program with status 2."""
    parser = Parser(prog="python -m trainer", description=DESCRIPTION, epilog=EPILOG)
    training(parser)
    data(parser)
    model(parser)
    devices(parser)
    saving(parser)
    return parser.parse_args(argv)


def training(parser: argparse.ArgumentParser) -> None:
    """How long, and in what steps."""
    add = parser.add_argument_group("training").add_argument
    add("--epochs", type=count, default=12, metavar="N", help="passes over the data (default: %(default)s)")
    add(
        "--batch_size",
        type=count,
        default=32,
        metavar="N",
        help="examples per replica and step (default: %(default)s)",
    )
    add(
        "--learning_rate",
        type=rate,
        default=0.001,
        metavar="X",
        help="of Adam, per replica (default: %(default)s)",
    )
    add(
        "--scaling",
        choices=("linear", "none"),
        default="linear",
        help="multiply the learning rate by the number of replicas, or not (default: %(default)s)",
    )
    add(
        "--warmup_epochs",
        type=amount,
        default=1.0,
        metavar="X",
        help="how long the learning rate rises to the scaled one; with one replica it needn't (default: 1)",
    )
    add(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="of weights and shuffling (default: %(default)s)",
    )


def data(parser: argparse.ArgumentParser) -> None:
    """What is learnt."""
    add = parser.add_argument_group("data").add_argument
    add(
        "--data",
        default="digits",
        metavar="WHAT",
        help="digits (they come along), synthetic (made up, to measure speed), FILE.npz (arrays x and y, or "
        "x_train, y_train, x_test and y_test), or a quoted pattern of files: 'train-*.tfrecord', or for "
        "the transformer '*.txt' (default: %(default)s)",
    )
    add(
        "--shape",
        type=shape,
        metavar="HxWxC",
        help="of synthetic images (default: 28x28x1); images of TFRecords are resized to it",
    )
    add(
        "--classes",
        type=count,
        metavar="N",
        help="of synthetic data (default: 10; 256 tokens) and of large TFRecords",
    )
    add("--examples", type=count, metavar="N", help="how many synthetic ones (default: 2048)")


def model(parser: argparse.ArgumentParser) -> None:
    """What learns it."""
    add = parser.add_argument_group("model").add_argument
    add(
        "--model",
        type=network,
        metavar="cnn|transformer|MODULE:FUNCTION",
        help="a small convolutional network, a small causal language model, or your own: "
        "FUNCTION(shape, classes) returns a Keras model (default: cnn for images, transformer for text)",
    )
    add("--context", type=count, default=64, metavar="N", help="bytes of text it sees (default: %(default)s)")
    add(
        "--width",
        type=count,
        default=64,
        metavar="N",
        help="of the transformer's states (default: %(default)s)",
    )
    add("--depth", type=count, default=2, metavar="N", help="the transformer's blocks (default: %(default)s)")
    add(
        "--heads",
        type=count,
        default=4,
        metavar="N",
        help="the transformer's heads; they divide the width (default: %(default)s)",
    )


def devices(parser: argparse.ArgumentParser) -> None:
    """What it runs on, and how."""
    add = parser.add_argument_group("devices").add_argument
    add(
        "--mixed_precision",
        choices=("float16", "bfloat16"),
        help="reckon in 16 bits, keep weights in 32; for GPUs with tensor cores",
    )
    add("--xla", action="store_true", help="compile with XLA")
    add("--deterministic", action="store_true", help="the same numbers every time, at some speed")
    add(
        "--communication",
        choices=("auto", "ring", "nccl"),
        default="auto",
        help="how hosts exchange gradients: ring (gRPC) or NCCL (default: %(default)s)",
    )


def saving(parser: argparse.ArgumentParser) -> None:
    """What is kept, and whether it is taken up."""
    add = parser.add_argument_group("checkpoints").add_argument
    add(
        "--save_every",
        type=count,
        default=0,
        metavar="STEPS",
        help="a checkpoint each so many steps of an epoch (default: each 10 minutes), and after each epoch",
    )
    add("--keep", type=count, default=3, metavar="N", help="keep the last N, and the best (default: 3)")
    add(
        "--fresh",
        action="store_true",
        help="begin anew and remove ./checkpoints; without it a training goes on from there",
    )
