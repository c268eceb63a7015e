"""A training that knows nothing of orch: Keras, numbers it makes itself, ./checkpoints."""

import argparse
import time

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--pause", type=float, default=0, help="seconds after each epoch")
args = parser.parse_args()

rng = np.random.default_rng(7)
x = rng.normal(size=(2000, 16)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int32")
model = tf.keras.Sequential([tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(2)])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])
keep = tf.keras.callbacks.ModelCheckpoint("checkpoints/{epoch:02d}.ckpt", save_weights_only=True)
rest = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: time.sleep(args.pause))
model.fit(x, y, epochs=args.epochs, batch_size=100, verbose=2, callbacks=[keep, rest])
print("trained")
