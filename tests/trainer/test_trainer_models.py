"""The networks that come along and one's own, and the ways in which they are computed."""

from __future__ import annotations

import json
import re

import pytest

from tests.trainer import scripts
from tests.trainer.conftest import CHECKOUT, Trainer, own_words

OWN = """
from tensorflow import keras
def build(shape, classes):
    layers = [keras.Input(shape), keras.layers.Flatten(), keras.layers.Dense(classes, activation="softmax")]
    return keras.Sequential(layers)
def compiled(shape, classes):
    network = build(shape, classes)
    network.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    return network
class Net(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.flat, self.dense = keras.layers.Flatten(), keras.layers.Dense(classes, activation="softmax")
    def call(self, x): return self.dense(self.flat(x))
def net(shape, classes, gives=None):
    import tensorflow as tf
    network = Net(gives or classes)
    network(tf.zeros((1, *shape)))
    return network
def narrow(shape, classes): return net(shape, classes, 3)
def late(shape, classes): return keras.Sequential([keras.layers.Dense(classes)])
def wrong(shape): return None
def boom(shape, classes):
    return 1 / 0
def nothing(shape, classes): return None
def few(shape, classes): return build(shape, 3)
def other(shape, classes): return build((4, 4, 1), 3)
number = 3
"""
REASONS = {
    "my:late": "the model isn't built; begin it with keras.Input(shape)",
    "my:wrong": "TypeError: wrong() takes 1 positional argument but 2 were given",
    "my:boom": "ZeroDivisionError: division by zero ({}/my.py:24)",
    "my:nothing": "returned a builtins.NoneType, not a Keras model (use `from tensorflow import keras`)",
    "my:few": "the model gives (3,), but there are 10 classes",
    "my:narrow": "the model gives (3,), but there are 10 classes",
    "my:other": "the model takes inputs of (4, 4, 1), but the data has (8, 8, 1)",
    "my:number": "{}/my.py has no function number",
    "my:gone": "{}/my.py has no function gone",
    "nowhere:f": "no module nowhere here or in PYTHONPATH",
    "bad:f": "invalid syntax ({}/bad.py:1)",
    "needs:f": "ModuleNotFoundError: No module named 'nothere' ({}/needs.py:1)",
}
TRY = """
import sys
from trainer import errors, own
for name in sys.argv[1:]:
    try:
        own.build(name, (8, 8, 1), 10)
    except errors.BadInput as error:
        print(error)
"""
CAUSAL = """
import numpy
from trainer import arguments, transformer
network = transformer.build(arguments.parse([]), 16, 256)
tokens = numpy.arange(64).reshape(4, 16)
changed = tokens.copy()
changed[:, 9:] += 70
near, far = network(tokens).numpy(), network(changed).numpy()
numpy.testing.assert_allclose(near[:, :9], far[:, :9], rtol=1e-4)
assert abs(near[:, 9:] - far[:, 9:]).max() > 1e-4
print("causal")
"""


def losses(trainer: Trainer) -> list[float]:
    records = map(json.loads, (trainer.cwd / "progress.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if "val_loss" in record]


def test_what_is_wrong_with_an_own_model_is_one_line(trainer: Trainer) -> None:
    for name, code in {"my.py": OWN, "bad.py": "def f(:", "needs.py": "import nothere"}.items():
        trainer.writes(name, code)
    done = trainer.python_runs(trainer.writes("try.py", TRY), *REASONS)
    assert done.returncode == 0, done.stderr
    expected = [f"--model {name}: {reason.format(trainer.cwd)}" for name, reason in REASONS.items()]
    assert done.stdout.splitlines() == expected


def test_an_own_model_trains_and_a_compiled_one_keeps_its_optimizer(trainer: Trainer) -> None:
    trainer.writes("my.py", OWN)
    done = trainer.trains("--model=my:build", "--epochs=2")
    assert done.returncode == 0, done.stderr
    found = losses(trainer)
    assert found[1] < found[0]
    done = trainer.trains("--model=my:compiled", "--epochs=1", "--fresh")
    assert done.returncode == 0, done.stderr
    assert "--model my:compiled is compiled: its own optimizer, learning rate and metrics" in done.stdout
    assert json.loads((trainer.cwd / "progress.jsonl").read_text().splitlines()[-1])["learning_rate"] > 0.005


def test_text_is_learnt_by_a_transformer_that_sees_no_future(trainer: Trainer) -> None:
    trainer.writes("causal.py", CAUSAL)
    assert trainer.python_runs("causal.py").stdout == "causal\n"
    text = (CHECKOUT / "docs" / "hosts.md").read_text()
    trainer.writes("some.txt", text)
    done = trainer.trains("--data=*.txt", "--epochs=2", "--context=32", "--width=32", "--depth=1")
    assert done.returncode == 0, done.stderr
    count = (len(text.encode()) - 1) // 32
    told = re.search(r"\*\.txt: (\d+) train, (\d+) validation, (\d+) test; 32 tokens each, 256", done.stdout)
    assert told is not None
    assert sum(map(int, told.groups())) == count
    found = losses(trainer)
    assert found[1] < found[0] < 6
    assert "saved saved_model/" in done.stdout


def test_other_ways_to_compute_train_as_well(trainer: Trainer) -> None:
    data = ("--data=synthetic", "--shape=6x9x3", "--classes=4", "--examples=200", "--epochs=2", "--fresh")
    for flags in (("--xla", "--mixed_precision=bfloat16"), ("--deterministic",)):
        done = trainer.trains(*data, *flags)
        assert done.returncode == 0, done.stderr
        assert "synthetic: 144 train, 16 validation, 40 test; 6x9x3, 4 classes" in done.stdout
        assert losses(trainer)[1] < losses(trainer)[0]


def test_three_replicas_train_as_one_does_also_in_the_last_step(trainer: Trainer) -> None:
    """22 = 3 x 7 + 1: of the last step two replicas have nothing but what fills up."""
    script = trainer.writes("replicas.py", scripts.REPLICAS)
    data = ("--data=synthetic", "--examples=30", "--shape=6x6", "--classes=3")
    flags = (*data, "--epochs=3", "--scaling=none", "--learning_rate=0.003", "--fresh")
    assert trainer.trains("--batch_size=21", *flags).returncode == 0
    alone = losses(trainer)
    done = trainer.python_runs(script, "--batch_size=7", *flags)
    assert done.returncode == 0, done.stderr
    assert losses(trainer) == pytest.approx(alone, rel=1e-4)


def test_three_replicas_are_taken_up_by_one_and_one_by_three(trainer: Trainer) -> None:
    """The learning rate is another one then, with a warm-up or without."""
    script = trainer.writes("replicas.py", scripts.REPLICAS)
    flags = ("--data=synthetic", "--examples=60", "--shape=6x6", "--classes=3", "--batch_size=7")
    begun = trainer.python_runs(script, "--epochs=1", "--fresh", *flags)
    assert begun.returncode == 0, begun.stderr
    assert "goes on from checkpoints" in trainer.trains("--epochs=2", *flags).stdout
    again = trainer.python_runs(script, "--epochs=3", *flags)
    assert again.returncode == 0, again.stderr
    assert "goes on from checkpoints" in again.stdout


def test_what_cannot_be_is_one_line(newest: Trainer) -> None:
    two = json.dumps({"cluster": {"worker": ["h:1", "h:2"]}, "task": {"type": "worker", "index": 0}})
    newest.writes("sitecustomize.py", "import sys; sys.modules['tf_keras'] = None")
    newest.writes("some.txt", "to be or not to be, " * 200)
    said = {
        ("--communication=nccl",): "--communication nccl: NCCL needs GPUs, and this TensorFlow sees none; "
        "use ring or auto",
        ("--model=transformer",): "--model transformer: learns text; give it --data FILE.txt or synthetic",
        ("--model=cnn", "--data=some.txt"): "--model cnn: learns images, and --data is text; "
        "give it --model transformer",
        ("--xla", "--deterministic"): "--xla: the cnn's pooling isn't --deterministic under XLA; "
        "leave one of them out",
        ("--data=some.txt", "--heads=5"): "--heads 5: doesn't divide --width 64",
    }
    for flags, reason in said.items():
        done = newest.trains(*flags)
        assert (done.returncode, own_words(done.stderr)) == (2, [f"trainer: {reason}"])
    done = newest.trains(path=str(newest.cwd), TF_CONFIG=two)
    assert done.returncode == 1
    (words,) = own_words(done.stderr)
    assert words.startswith("trainer: several workers need Keras 2, as Keras 3 can't train them (pip install")
