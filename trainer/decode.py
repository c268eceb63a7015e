"""Images out of TFRecords: kept in memory when they fit, else read and decoded anew in each epoch."""

from __future__ import annotations

import argparse
from typing import Callable, List, Tuple

import numpy as np
import tensorflow as tf

from . import layout
from .dataset import Dataset
from .errors import BadInput
from .examples import Arrays, Records

KEPT_BYTES = 2**31
"""Decoded images of all parts that need no more are kept."""

AT_ONCE = 64
PARTS = ("train", "validation", "test")


def settled(data: Dataset, options: argparse.Namespace) -> Dataset:
    """The data with what only a look into its records tells: shape and classes. Other data is as it was.

    Raises BadInput where the records hold no images, or not such as can be trained on.
    """
    if not isinstance(data.train, Records):
        return data
    where = f"--data {options.data}"
    found = layout.of(data.train, options, where)
    parts = {name: getattr(data, name).laid(found) for name in PARTS}
    values = sum(map(len, parts.values())) * int(np.prod(found.shape))
    if values * found.dtype.size <= KEPT_BYTES:
        return kept({name: in_memory(part, where) for name, part in parts.items()}, data, found, options)
    if not (options.shape and options.classes):
        raise BadInput(f"{where}: too large to be looked through; give --shape HxWxC and --classes N")
    parts = {name: part.laid(found._replace(classes=options.classes)) for name, part in parts.items()}
    scale = 255.0 if found.dtype == tf.uint8 else 1.0
    return data._replace(shape=found.shape, classes=options.classes, scale=scale, **parts)


def kept(
    parts: dict[str, Arrays], data: Dataset, found: layout.Layout, options: argparse.Namespace
) -> Dataset:
    """The data in memory. Raises BadInput for labels that are no class numbers."""
    where = f"--data {options.data}"
    least = min(int(part.labels.min()) for part in parts.values())
    most = max(int(part.labels.max()) for part in parts.values())
    classes = options.classes or most + 1
    examples = sum(map(len, parts.values()))
    if least < 0 or most >= (options.classes or examples):
        wrong = least if least < 0 else most
        limit = f"--classes {classes}" if options.classes else f"{examples} examples"
        raise BadInput(f"{where}: has a label {wrong} for {limit}; number the classes from 0")
    largest = float(np.abs(parts["train"].inputs).max()) if found.dtype == tf.float32 else 255.0
    return data._replace(shape=found.shape, classes=classes, scale=largest or 1.0, **parts)


def in_memory(part: Records, where: str) -> Arrays:
    """All of a part, decoded. Raises BadInput that names the first record that can't be."""
    images = np.empty((len(part), *part.layout.shape), part.layout.dtype.as_numpy_dtype)
    labels = np.empty(len(part), np.int64)
    rows = tf.data.Dataset.range(len(part)).batch(AT_ONCE)
    done = 0
    try:
        for some, theirs in rows.map(look_up(part), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2):
            images[done : done + len(some)], labels[done : done + len(some)] = some, theirs
            done += len(some)
    except tf.errors.OpError:
        raise BadInput(f"{where}: {first_wrong(part, done)}") from None
    return Arrays(images, labels)


def first_wrong(part: Records, begin: int) -> str:
    """Which record from `begin` on can't be decoded, and why."""
    find = look_up(part)
    for row in range(begin, len(part)):
        try:
            find(tf.constant([row], tf.int64))
        except tf.errors.OpError as error:
            return f"{part.where(row)}: {reason(error)}"
    return "can't be read"


def reason(error: tf.errors.OpError) -> str:
    """What TensorFlow says of it, without where in its graph it stood."""
    lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
    words = lines[-1].split(" [Op:")[0].split("}} ")[-1]
    for before in ("InvalidArgumentError: ", "Summarized data: b", "assertion failed: "):
        words = words.split(before)[-1]
    return words.strip("\"'[]")


def look_up(part: Records) -> Callable[[tf.Tensor], Tuple[tf.Tensor, tf.Tensor]]:
    """How to find rows of records."""
    found = part.layout

    def find(rows: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        records = tf.numpy_function(part.read, [rows], tf.string)
        records.set_shape([None])
        features = tf.io.parse_example(records, spec(found))
        labels = features[found.label]
        if found.classes:
            limit = tf.constant(found.classes, tf.int64)
            tf.debugging.assert_less(labels, limit, "a label is not below --classes")
            tf.debugging.assert_non_negative(labels, "a label is below 0")
        return images(features[found.image], found), labels

    return find


def spec(found: layout.Layout) -> dict[str, tf.io.FixedLenFeature]:
    """What to take from each record."""
    kind = {"int64": tf.int64, "float": tf.float32}.get(found.written, tf.string)
    count: List[int] = [] if kind == tf.string else [int(np.prod(found.shape))]
    return {found.image: tf.io.FixedLenFeature(count, kind), found.label: tf.io.FixedLenFeature([], tf.int64)}


def images(written: tf.Tensor, found: layout.Layout) -> tf.Tensor:
    """A batch of images from how they are written."""
    shape = (-1, *found.shape)
    if found.written == "bytes":
        return tf.reshape(tf.io.decode_raw(written, tf.uint8, fixed_length=None), shape)
    if found.written != "encoded":
        return tf.cast(tf.reshape(written, shape), tf.float32)
    return tf.map_fn(
        lambda image: one(image, found), written, fn_output_signature=tf.TensorSpec(found.shape, tf.uint8)
    )


def one(encoded: tf.Tensor, found: layout.Layout) -> tf.Tensor:
    """An image in the shape that all have, or get."""
    image = tf.io.decode_image(encoded, channels=found.shape[2], expand_animations=False)
    if not found.resized:
        message = "its shape isn't that of the first; give the --shape HxWxC that all get"
        same = tf.reduce_all(tf.shape(image) == tf.constant(found.shape))
        with tf.control_dependencies([tf.debugging.Assert(same, [message])]):
            return tf.ensure_shape(tf.identity(image), found.shape)
    image.set_shape([None, None, found.shape[2]])
    return tf.cast(tf.round(tf.image.resize(image, found.shape[:2])), tf.uint8)
