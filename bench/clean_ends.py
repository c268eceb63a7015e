"""How two workers end when their training is complete: the trainer's, and those of a bare script.

    .venv/bin/python bench/clean_ends.py [RUNS]

Each run is two processes on this machine under TensorFlow 2.9.3, which may die while Python shuts down
(status 134 or 139), with everything done. Prints how many pairs ended with 0 and writes
bench/clean_ends.json. The goal: all of the trainer's; the bare script's are what it would be else.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from tests.trainer import venvs  # noqa: E402
from tests.trainer.conftest import Trainer  # noqa: E402
from tests.trainer.pair import Workers  # noqa: E402

RUNS = 100
BARE_EACH = 5
"""Runs of the trainer to one of the bare script."""
FLAGS = ["--epochs", "1", "--batch_size", "300", "--fresh"]

BARE = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
images = tf.random.stateless_uniform((600, 8, 8, 1), (1, 2))
labels = tf.random.stateless_uniform((600,), (3, 4), maxval=10, dtype=tf.int64)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(300).with_options(options)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Flatten(input_shape=(8, 8, 1)), tf.keras.layers.Dense(10, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(data, epochs=2, verbose=0)
print("complete", flush=True)
"""
"""What TensorFlow's guide to several workers teaches, and nothing else."""


def main() -> None:
    """Run both kinds in turn, so that a drift of the machine meets both; tell on stderr how far it is."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    try:
        python = venvs.environment(venvs.OLD)
    except venvs.Missing as missing:
        print(f"bench/clean_ends.py: not measured: {missing}")
        return
    ends: dict[str, Counter[str]] = {"trainer": Counter(), "bare": Counter()}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            ends["trainer"][one(python, Path(folder), ["-m", "trainer", *FLAGS])] += 1
            if number % BARE_EACH == 0:
                ends["bare"][one(python, Path(folder), ["-c", BARE])] += 1
            print(number + 1, *(f"{name} {dict(found)}" for name, found in ends.items()), file=sys.stderr)
    report(ends)


def one(python: Path, folder: Path, words: list[str]) -> str:
    """Return how the two workers of one run ended, such as `0 134`; `-` where one was not complete."""
    here = folder / "run"
    here.mkdir()
    ended = Workers(Trainer(python, here), 2).run([words, words])
    shutil.rmtree(here)
    done = ("test accuracy", "complete")
    last = [worker.out.splitlines()[-1:] or [""] for worker in ended]
    statuses = [128 - worker.status if worker.status < 0 else worker.status for worker in ended]
    pairs = zip(statuses, last, strict=True)
    return " ".join(str(status) if words[0].startswith(done) else f"-{status}" for status, words in pairs)


def report(ends: dict[str, Counter[str]]) -> None:
    """Print both counts, and write them down."""
    for name, found in ends.items():
        others = ", ".join(f"{number} x {how}" for how, number in found.items() if how != "0 0")
        print(f"{name:8}  {found['0 0']:3} of {found.total()} pairs ended with 0 0", others)
    told = {name: dict(found) for name, found in ends.items()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
