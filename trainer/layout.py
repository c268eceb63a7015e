"""How the records of TFRecord files are made up: tf.train.Example with an image and its class number."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple, Tuple

import numpy as np
import tensorflow as tf

from .errors import BadInput
from .examples import Records

IMAGES = ("image", "image/encoded", "image_raw")
LABELS = ("label", "image/class/label")


class Layout(NamedTuple):
    """Names of the two features, how the image is written, and what shape it has or gets."""

    image: str
    label: str
    written: str
    """`encoded` (JPEG, PNG, GIF, BMP), `bytes` (a byte for each value), `int64` or `float`."""
    shape: Tuple[int, ...]
    resized: bool
    classes: int = 0
    """What each label is compared with as it is read; 0 where all were looked at before."""

    @property
    def dtype(self) -> tf.DType:
        """What its values are in a batch."""
        return tf.uint8 if self.written in ("encoded", "bytes") else tf.float32


def of(records: Records, options: argparse.Namespace, where: str) -> Layout:
    """The layout of the first record, and so of all. Raises BadInput when there is no image in it."""
    example = tf.train.Example()
    try:
        example.ParseFromString(records.read(np.array([0]))[0])
    except Exception as error:  # the class of this error has moved with protobuf
        raise BadInput(f"{where}: {records.where(0)}: no tf.train.Example") from error
    features = example.features.feature
    image, label = key(features, IMAGES, "image", where), key(features, LABELS, "label", where)
    if not features[label].int64_list.value:
        raise BadInput(f"{where}: {label!r} holds no whole number")
    return written(image, label, features[image], options.shape, where)


def key(features: Any, names: Tuple[str, ...], what: str, where: str) -> str:
    """The name under which the records hold this."""
    for name in names:
        if name in features:
            return name
    held = ", ".join(sorted(features)) or "nothing"
    raise BadInput(f"{where}: has no {what} ({' or '.join(map(repr, names))}); it holds {held}")


def written(image: str, label: str, feature: Any, shape: Any, where: str) -> Layout:
    """How this image is written. Raises BadInput when its shape can't be known."""
    kind = feature.WhichOneof("kind") or "nothing"
    if kind == "bytes_list" and (natural := decoded(feature.bytes_list.value[:1])):
        return Layout(image, label, "encoded", tuple(shape or natural), bool(shape))
    values = getattr(feature, kind).value if kind != "nothing" else []
    count = len(values[0]) if kind == "bytes_list" and values else len(values)
    if not shape:
        raise BadInput(f"{where}: {image!r} is no JPEG or PNG, but {count} values; give their --shape HxWxC")
    if count != np.prod(shape):
        raise BadInput(f"{where}: {image!r} has {count} values, not --shape {'x'.join(map(str, shape))}")
    return Layout(image, label, kind.replace("_list", ""), tuple(shape), False)


def decoded(values: Any) -> Tuple[int, ...]:
    """The shape of an encoded image, () when it is none."""
    try:
        return tuple(tf.io.decode_image(values[0], expand_animations=False).shape)
    except (tf.errors.InvalidArgumentError, IndexError):
        return ()
