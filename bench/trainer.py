"""Steps per second of the trainer beside a bare Keras script, with one worker and with two.

    .venv/bin/python bench/trainer.py

Both train the same network on made-up images of the same shape with the same batch, under TensorFlow 2.9.3,
each worker a process on this machine. They run in turn; each times its own steps, from the second epoch on,
without validation and saving. Prints medians and ratios and writes bench/trainer.json. The goal: at
least 0.97.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from tests.trainer import venvs  # noqa: E402
from tests.trainer.conftest import Trainer  # noqa: E402
from tests.trainer.pair import Workers  # noqa: E402

TURNS = 5
EPOCHS = 4
BATCH = 32
EXAMPLES = 4096
TRAINED = 2949
"""What the trainer keeps of EXAMPLES to train on."""
GOAL = 0.97
FLAGS = [
    *("--data", "synthetic", "--examples", str(EXAMPLES), "--fresh"),
    *("--epochs", str(EPOCHS), "--batch_size", str(BATCH)),
]

BARE = f"""
import os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
several = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
batch = {BATCH} * strategy.num_replicas_in_sync
steps = -(-{TRAINED} // batch)
images = tf.random.stateless_uniform(({TRAINED}, 28, 28, 1), (1, 2), 0, 255, tf.int32)
labels = tf.random.stateless_uniform(({TRAINED},), (3, 4), 0, 10, tf.int64)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = tf.data.Dataset.from_tensor_slices((tf.cast(images, tf.uint8), labels)).cache()
data = data.shuffle({TRAINED}).repeat().batch(batch).prefetch(tf.data.AUTOTUNE).with_options(options)
layers = tf.keras.layers
with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input((28, 28, 1)),
        layers.Rescaling(1 / 255),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(padding="same"),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
taken = []
class Clock(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()
    def on_epoch_end(self, epoch, logs=None):
        taken.append(time.perf_counter() - self.began)
model.fit(data, steps_per_epoch=steps, epochs={EPOCHS}, verbose=0, callbacks=[Clock()])
print("rates", *(steps / seconds for seconds in taken[1:]), flush=True)
os._exit(0)
"""
"""What TensorFlow's guides teach, and nothing beside it."""


def main() -> None:
    """Run all in turn, so that a drift of the machine meets all."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    try:
        python = venvs.environment(venvs.OLD)
    except venvs.Missing as missing:
        print(f"bench/trainer.py: not measured: {missing}")
        return
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            for count in (1, 2):
                for name, words in {"trainer": ["-m", "trainer", *FLAGS], "bare": ["-c", BARE]}.items():
                    found = one(python, Path(folder), count, words)
                    rates.setdefault(f"{name} {count}", []).append(found)
    report(rates)


def one(python: Path, folder: Path, count: int, words: list[str]) -> float:
    """Return the steps per second of one run: the median of its epochs but the first."""
    here = folder / "run"
    here.mkdir()
    ended = Workers(Trainer(python, here), count).run([words] * count)
    if any(worker.status for worker in ended):
        sys.exit(f"{words[1]}: exit status {[worker.status for worker in ended]}\n{ended[0].err}")
    chief = ended[0]
    if words[0] == "-c":
        rates = [float(word) for word in chief.out.split()[1:]]
    else:
        steps = -(-TRAINED // (BATCH * count))
        rates = [epoch["examples_per_second"] * steps / TRAINED for epoch in chief.epochs[1:]]
    shutil.rmtree(here)
    return statistics.median(rates)


def report(rates: dict[str, list[float]]) -> None:
    """Print the medians and the ratios, and write them down."""
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratios = {}
    for count in (1, 2):
        trainer, bare = medians[f"trainer {count}"], medians[f"bare {count}"]
        ratios[count] = trainer / bare
        print(
            f"{count} worker{'s' * (count > 1):1}  trainer {trainer:6.1f} steps/s  bare {bare:6.1f} steps/s"
        )
        print(f"ratio      {ratios[count]:6.2f}      (goal: {GOAL:.2f})")
    told = {"steps_per_second": rates, "medians": medians, "ratios": ratios, "goal": GOAL}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
