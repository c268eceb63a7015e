"""A small convolutional network for images."""

from __future__ import annotations

from typing import Tuple

from tensorflow import keras


def build(shape: Tuple[int, ...], classes: int, scale: float) -> keras.Model:
    """From raw images of `shape` to one probability per class.

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
            layers.Dense(
                classes, activation="softmax", dtype="float32"
            ),  # 16 bits are too few for a sum to 1
        ]
    )
