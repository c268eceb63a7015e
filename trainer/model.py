"""The network."""

from __future__ import annotations

from typing import Tuple

from tensorflow import keras


def build(shape: Tuple[int, ...], classes: int, scale: float) -> keras.Model:
    """A small convolutional network from raw images of `shape` to one probability per class.

    Pixels are divided by `scale` inside the network: whoever loads the SavedModel feeds images as they are.
    """
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Rescaling(1.0 / scale),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(padding="same"),
            layers.Flatten(),
            layers.Dropout(0.25),
            layers.Dense(classes, activation="softmax"),
        ]
    )


def compile_for_training(model: keras.Model, learning_rate: float) -> None:
    """Give the network its optimizer, loss and metric; the metric leaves out rows of weight 0."""
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss="sparse_categorical_crossentropy",
        weighted_metrics=["accuracy"],
    )
