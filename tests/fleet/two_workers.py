"""A training of two workers as TensorFlow's documents have people write it; it knows nothing of orch."""

import json
import os

import numpy as np
import tensorflow as tf

PER_WORKER = 32
tf_config = json.loads(os.environ["TF_CONFIG"])
workers = len(tf_config["cluster"]["worker"])
task = tf_config["task"]

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def dataset(size: int) -> tf.data.Dataset:
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(10, 16))
    labels = rng.integers(0, 10, 4000)
    examples = (centres[labels] + rng.normal(scale=0.3, size=(4000, 16))).astype("float32")
    return tf.data.Dataset.from_tensor_slices((examples, labels)).shuffle(4000, seed=7).repeat().batch(size)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])

seen = model.fit(dataset(PER_WORKER * workers), epochs=3, steps_per_epoch=70, verbose=2)
chief = task["type"] == "chief" or task["index"] == 0
model.save("model" if chief else "model-of-{}".format(task["index"]))
print("accuracy of worker {}: {:.3f}".format(task["index"], seen.history["accuracy"][-1]), flush=True)
