"""TFRecords train as the same images in an .npz file do, and bad ones are told by file and byte."""

from __future__ import annotations

import json

import pytest

from tests.trainer import makers
from tests.trainer.conftest import Trainer

STREAMED = """
import sys
from trainer import __main__, decode
decode.KEPT_BYTES = 0
__main__.leave(__main__.main(sys.argv[1:]))
"""
"""The trainer as it treats records that don't fit in memory."""

LOOK = """
import sys
from trainer import arguments, dataset, decode, errors
decode.KEPT_BYTES = 2000 if "--large" in sys.argv else decode.KEPT_BYTES
for word in sys.argv[1:]:
    if word == "--large":
        continue
    try:
        options = arguments.parse(["--data", *word.split()])
        print(decode.settled(dataset.load(options), options))
    except errors.BadInput as error:
        print(error)
"""
"""What the trainer says of each of these data, as it looks at them before it trains."""

PARTS = "74 train, 8 validation, 21 test"
SAID = {
    "same.npz": f"same.npz: {PARTS}; 6x7x3, 5 classes",
    "png-*.tfrecord": f"png-*.tfrecord: {PARTS}; 6x7x3, 5 classes",
    "good.tfrecord --shape 12x10x1": f"good.tfrecord: {PARTS}; 12x10x1, 5 classes",
    "good.tfrecord --classes 9": f"good.tfrecord: {PARTS}; 6x7x3, 9 classes",
    "good.tfrecord --classes 3": "has a label 4 for --classes 3; number the classes from 0",
    "years.tfrecord": "has a label 2004 for 103 examples; number the classes from 0",
    "cut.tfrecord": "is cut off in the record at byte 25908",
    "mixed-*": "no TFRecord file",
    "no*pe": "no file matches",
    "zeros.bin": "neither text nor TFRecords nor an .npz file",
    "zipped.tfrecord": "is compressed; unpack it first",
    "short.txt": "0 examples are too few, 10 are the least",
    "raw.tfrecord": "'image' is no JPEG or PNG, but 126 values; give their --shape HxWxC",
    "raw.tfrecord --shape 6x7": "'image' has 126 values, not --shape 6x7x1",
    "bytes.tfrecord": "bytes.tfrecord, record at byte 168: no tf.train.Example",
    "none.tfrecord": "has no image ('image' or 'image/encoded' or 'image_raw'); it holds picture",
    "unlabelled.tfrecord": "has no label ('label' or 'image/class/label'); it holds image",
    "names.tfrecord": "'label' holds no whole number",
    "sizes.tfrecord": "sizes.tfrecord, record at byte 5092: "
    "its shape isn't that of the first; give the --shape HxWxC that all get",
    "broken.tfrecord": "broken.tfrecord, record at byte 5092: Unknown image file format.",
}
LARGE = {
    "good.tfrecord": "too large to be looked through; give --shape HxWxC and --classes N",
    "good.tfrecord --shape 6x7x3 --classes 5": f"good.tfrecord: {PARTS}; 6x7x3, 5 classes",
}


def losses(trainer: Trainer, *flags: str, script: tuple[str, ...] = ("-m", "trainer")) -> list[float]:
    done = trainer.python_runs(*script, "--epochs=2", "--batch_size=16", *flags)
    assert done.returncode == 0, done.stderr
    progress = (trainer.cwd / "progress.jsonl").read_text().splitlines()
    return [record["loss"] for record in map(json.loads, progress) if "val_loss" in record]


SAME = """
import numpy
from trainer import arguments, dataset, decode
def load(words):
    options = arguments.parse(["--data", *words.split()])
    return decode.settled(dataset.load(options), options)
expected = load("same.npz")
ways = ("raw", "ints", "floats")
for words in ("png-*", "slim.tfrecord", *(f"{way}.tfrecord --shape 6x7x3" for way in ways)):
    found = load(words)
    assert (found.shape, found.classes, found.scale) == ((6, 7, 3), 5, 255.0), words
    for part in ("train", "validation", "test"):
        numpy.testing.assert_array_equal(getattr(found, part).inputs, getattr(expected, part).inputs)
        numpy.testing.assert_array_equal(getattr(found, part).labels, getattr(expected, part).labels)
print("same")
"""


def test_the_same_images_in_every_way_are_the_same(trainer: Trainer) -> None:
    assert trainer.python_runs(trainer.writes("maker.py", makers.SAME)).returncode == 0
    done = trainer.python_runs(trainer.writes("same.py", SAME))
    assert done.stdout == "same\n", done.stderr


def test_records_that_are_streamed_train_as_those_in_memory(trainer: Trainer) -> None:
    assert trainer.python_runs(trainer.writes("maker.py", makers.SAME)).returncode == 0
    script = (trainer.writes("streamed.py", STREAMED),)
    flags = ("--data=png-*.tfrecord", "--shape=6x7x3", "--classes=5")
    assert losses(trainer, *flags, script=script) == pytest.approx(losses(trainer, flags[0]), rel=1e-5)


def test_what_is_said_of_records_before_they_train(trainer: Trainer) -> None:
    for maker in (makers.SAME, makers.WRONG):
        assert trainer.python_runs(trainer.writes("maker.py", maker)).returncode == 0
    look = trainer.writes("look.py", LOOK)
    for flags, said in (((), SAID), (("--large",), LARGE)):
        done = trainer.python_runs(look, *flags, *said)
        assert done.returncode == 0, done.stderr
        for line, (words, expected) in zip(done.stdout.splitlines(), said.items(), strict=True):
            assert expected in line, words


def test_a_label_too_large_is_told_also_where_records_are_streamed(trainer: Trainer) -> None:
    assert trainer.python_runs(trainer.writes("maker.py", makers.SAME)).returncode == 0
    flags = ("--data=png-*.tfrecord", "--shape=6x7x3", "--classes=3")
    done = trainer.python_runs(trainer.writes("streamed.py", STREAMED), *flags)
    assert done.returncode != 0
    assert "a label is not below --classes" in done.stderr


def test_each_file_can_be_read_also_when_they_are_many(trainer: Trainer) -> None:
    """More files than are kept open."""
    script = """
import numpy
from trainer import files
files.KEPT = 3
for number in range(9):
    open(f"{number}", "w").write(f"-{number}-")
many = files.Files(tuple(map(str, range(9))))
print(*(many.read(number, 1, 1).decode() for number in [*range(9), *range(9)]))
try:
    many.read(0, 2, 5)
except OSError as error:
    print(error.filename, error.strerror)
"""
    done = trainer.python_runs("-c", script)
    assert done.stdout.splitlines() == [
        " ".join("012345678012345678"),
        "0 has become shorter while it was read",
    ]
