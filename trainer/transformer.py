"""A small causal language model: from tokens to the probabilities of each one's next."""

from __future__ import annotations

import argparse
from typing import Any

import tensorflow as tf
from tensorflow import keras

from .errors import BadInput


class Positions(keras.layers.Layer):
    """Adds what stands for its place to each token's state."""

    def build(self, shape: Any) -> None:
        """One learnt vector per place."""
        self.places = self.add_weight(name="places", shape=tuple(shape[1:]), initializer="uniform")
        super().build(shape)

    def call(self, states: tf.Tensor) -> tf.Tensor:
        """(batch, tokens, width) to the same."""
        return states + tf.cast(self.places, states.dtype)


class Attention(keras.layers.Layer):
    """Each token looks at itself and those before it, with several heads."""

    def __init__(self, width: int, heads: int, **named: Any) -> None:
        super().__init__(**named)
        self.heads = heads
        self.inner = keras.layers.Dense(3 * width, name="inner")
        self.outer = keras.layers.Dense(width, name="outer")

    def build(self, shape: Any) -> None:
        """Make the weights."""
        self.inner.build(shape)
        self.outer.build(shape)
        super().build(shape)

    def call(self, states: tf.Tensor) -> tf.Tensor:
        """(batch, tokens, width) to the same."""
        shape = tf.shape(states)
        count, width = shape[1], states.shape[-1]
        parts = tf.reshape(self.inner(states), [shape[0], count, 3, self.heads, width // self.heads])
        query, key, value = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        near = tf.matmul(query, key, transpose_b=True) * (width // self.heads) ** -0.5
        past = tf.linalg.band_part(tf.ones([count, count], tf.bool), -1, 0)
        share = tf.nn.softmax(tf.where(past, tf.cast(near, tf.float32), -1e9))
        found = tf.matmul(tf.cast(share, value.dtype), value)
        return self.outer(tf.reshape(tf.transpose(found, [0, 2, 1, 3]), tf.shape(states)))


def build(options: argparse.Namespace, context: int, tokens: int) -> keras.Model:
    """From (batch, context) tokens to (batch, context, tokens) probabilities. Raises BadInput."""
    width, layers = options.width, keras.layers
    if width % options.heads:
        raise BadInput(f"--heads {options.heads}: doesn't divide --width {width}")
    inputs = keras.Input((context,), dtype="int32")
    states = Positions(name="positions")(layers.Embedding(tokens, width)(inputs))
    for block in range(options.depth):
        seen = Attention(width, options.heads, name=f"attention_{block}")(layers.LayerNormalization()(states))
        states = layers.Add()([states, seen])
        wide = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(states))
        states = layers.Add()([states, layers.Dense(width)(wide)])
    last = layers.LayerNormalization()(states)
    return keras.Model(inputs, layers.Dense(tokens, activation="softmax", dtype="float32")(last))
