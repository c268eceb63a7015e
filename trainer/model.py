"""The network: one of the two that come along, or your own."""

from __future__ import annotations

import argparse

from tensorflow import keras

from . import cnn, metrics, own, transformer
from .dataset import Dataset
from .errors import BadInput
from .scaling import Rate

exact = metrics.exact
"""Keras's logs as means over real examples; what reports should call first."""


def build(options: argparse.Namespace, data: Dataset) -> keras.Model:
    """The network of --model for this data; inside the strategy's scope. Raises BadInput."""
    name = options.model or ("transformer" if data.text else "cnn")
    if name == "transformer":
        if not data.text:
            raise BadInput("--model transformer: learns text; give it --data FILE.txt or synthetic")
        return transformer.build(options, data.shape[0], data.classes)
    if name == "cnn":
        if data.text:
            raise BadInput("--model cnn: learns images, and --data is text; give it --model transformer")
        if options.xla and options.deterministic:
            raise BadInput("--xla: the cnn's pooling isn't --deterministic under XLA; leave one of them out")
        return cnn.build(data.shape, data.classes, data.scale)
    return own.build(name, data.shape, data.classes)


def compile(network: keras.Model, options: argparse.Namespace, rate: Rate) -> None:
    """Optimizer, loss and metrics; inside the strategy's scope. A network that has them keeps them."""
    if compiled(network):
        print(
            f"--model {options.model} is compiled: its own optimizer, learning rate and metrics are used",
            flush=True,
        )
        return
    network.compile(
        optimizer=keras.optimizers.Adam(rate.value()),
        loss="sparse_categorical_crossentropy",
        weighted_metrics=metrics.counted(),
        jit_compile=bool(options.xla) and rate.replicas == 1,
    )


def compiled(network: keras.Model) -> bool:
    """Whether a network has its optimizer and loss."""
    return getattr(network, "optimizer", None) is not None
