"""Which data the trainer takes, how it splits it, and what it refuses before TensorFlow is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer.conftest import Trainer

NO_TENSORFLOW = "raise SystemExit('TensorFlow was imported')"

MAKERS = {
    "text.npz": "open('text.npz', 'w').write('not a zip')",
    "empty.npz": "open('empty.npz', 'w').close()",
    "bare.npz": "numpy.save('bare', X); import os; os.rename('bare.npy', 'bare.npz')",
    "cut.npz": "numpy.savez('cut', x=X, y=Y); import os; os.truncate('cut.npz', 900)",
    "broken.npz": "numpy.savez_compressed('broken', x=X, y=Y); "
    "f = open('broken.npz', 'r+b'); f.seek(200); f.write(b'z' * 60); f.close()",
    "objects.npz": "numpy.savez('objects', x=numpy.array([{}] * 20), y=Y)",
    "names.npz": "numpy.savez('names', images=X, labels=Y)",
    "nothing.npz": "numpy.savez('nothing')",
    "half.npz": "numpy.savez('half', x_train=X, y_train=Y)",
    "flat.npz": "numpy.savez('flat', x=X.reshape(20, 16), y=Y)",
    "hollow.npz": "numpy.savez('hollow', x=X[:, :0], y=Y)",
    "words.npz": "numpy.savez('words', x=X.astype(str), y=Y)",
    "nan.npz": "numpy.savez('nan', x=X * numpy.nan, y=Y)",
    "fewer.npz": "numpy.savez('fewer', x=X, y=Y[:-1])",
    "onehot.npz": "numpy.savez('onehot', x=X, y=numpy.eye(3)[Y])",
    "fractions.npz": "numpy.savez('fractions', x=X, y=Y / 2)",
    "negative.npz": "numpy.savez('negative', x=X, y=Y - 1)",
    "years.npz": "numpy.savez('years', x=X, y=Y + 1999)",
    "few.npz": "numpy.savez('few', x=X[:9], y=Y[:9])",
    "shapes.npz": "numpy.savez('shapes', x_train=X, y_train=Y, x_test=X[:, 1:], y_test=Y)",
}
REASONS = {
    "missing.npz": "no such file (digits, synthetic, FILE.npz, FILE.txt or TFRecords)",
    "mnist": "no such file (digits, synthetic, FILE.npz, FILE.txt or TFRecords)",
    ".": "Is a directory",
    "text.npz": "not an .npz file of plain arrays (make one with numpy.savez)",
    "empty.npz": "not an .npz file of plain arrays (make one with numpy.savez)",
    "bare.npz": "not an .npz file of plain arrays (make one with numpy.savez)",
    "cut.npz": "not an .npz file of plain arrays (make one with numpy.savez)",
    "broken.npz": "not an .npz file of plain arrays (make one with numpy.savez)",
    "objects.npz": "not an .npz file of plain arrays (make one with numpy.savez)",
    "names.npz": "has no array 'x'; it holds images, labels",
    "nothing.npz": "has no array 'x'; it holds nothing",
    "half.npz": "has no array 'x_test'; it holds x_train, y_train",
    "flat.npz": "x has shape (20, 16), not (N, height, width) or (N, height, width, channels)",
    "hollow.npz": "x has shape (20, 0, 4), not (N, height, width) or (N, height, width, channels)",
    "words.npz": "x holds <U21, not numbers",
    "nan.npz": "x holds values that are not finite (nan or inf)",
    "fewer.npz": "x has 20 images, but y has 19 labels",
    "onehot.npz": "y has shape (20, 3), not (N,)",
    "fractions.npz": "y must hold class numbers (0, 1, 2, ...), not float64",
    "negative.npz": "y must hold class numbers (0, 1, 2, ...), not -1",
    "years.npz": "y has a label 2001 for 20 examples; number the classes from 0",
    "few.npz": "9 examples are too few, 10 are the least",
    "shapes.npz": "images of x_train are (4, 4, 1), of x_test (3, 4, 1)",
}


@pytest.fixture
def without_tensorflow(newest: Trainer) -> Trainer:
    """NumPy is there, but TensorFlow ends the program when it is imported."""
    (newest.cwd / "tensorflow.py").write_text(NO_TENSORFLOW)
    return newest


@pytest.mark.tensorflow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", REASONS)
def test_data_that_is_no_good_is_one_line(without_tensorflow: Trainer, name: str) -> None:
    setting = "import numpy; X = numpy.arange(320).reshape(20, 4, 4); Y = numpy.arange(20) % 3; "
    made = without_tensorflow.python_runs("-c", setting + MAKERS.get(name, ""))
    assert made.returncode == 0, made.stderr
    done = without_tensorflow.trains("--data", name, path=str(without_tensorflow.cwd))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"trainer: --data {name}: {REASONS[name]}\n"


@pytest.mark.tensorflow
@pytest.mark.timeout(1800)
def test_a_batch_larger_than_the_data_is_one_line(newest: Trainer) -> None:
    done = newest.trains("--batch_size", "1295")
    assert done.returncode == 2
    (words,) = [line for line in done.stderr.splitlines() if line.startswith("trainer: ")]
    assert words == "trainer: --batch_size 1295: 1295 examples a step, but 1294 to train on"
    assert "Traceback" not in done.stderr


SPLIT = """
import hashlib
from trainer import arguments, dataset, images
data = dataset.load(arguments.parse([]))
rows = [image.tobytes() for part in (data.train, data.validation, data.test) for image in part.inputs]
whole = {image.tobytes() for image in images.read(dataset.DIGITS, "")["x"]}
print(len(rows), set(rows) == whole, data.shape, data.classes, data.scale)
print(len(set(rows[-359:]) & set(rows[:-359])), "rows of the test part stand elsewhere")
print(hashlib.sha256(b"".join(rows)).hexdigest()[:16])
"""


@pytest.mark.tensorflow
@pytest.mark.timeout(1800)
def test_the_split_is_whole_disjoint_and_the_same_under_any_numpy(trainer: Trainer) -> None:
    done = trainer.python_runs("-c", SPLIT)
    assert done.stdout.splitlines() == [
        "1797 True (8, 8, 1) 10 16.0",
        "0 rows of the test part stand elsewhere",
        "bdc114d961a19ed9",
    ], done.stderr


def test_the_source_and_licence_of_the_digits_are_told() -> None:
    text = (Path(__file__).parents[2] / "trainer" / "data" / "README.md").read_text()
    assert "CC BY 4.0" in text
    assert "archive.ics.uci.edu" in text
