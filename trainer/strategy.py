"""Where to train: on all GPUs that can be seen, else on the CPU."""

from __future__ import annotations

import os
import sys
from typing import List

import tensorflow as tf


def gpus() -> List[str]:
    """Names of the GPUs. Memory growth is set first: it cannot be, once a GPU is in use."""
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    names = [gpu.name for gpu in tf.config.list_logical_devices("GPU")]
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if given not in ("", "-1") and not names:
        reason = f"CUDA_VISIBLE_DEVICES is {given}, but this TensorFlow sees no GPU"
        print(f"trainer: training on the CPU: {reason}", file=sys.stderr, flush=True)
    return names


def choose(devices: List[str]) -> tf.distribute.Strategy:
    """One replica per device when there are several, else TensorFlow's default: the GPU, or the CPU."""
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.get_strategy()


def describe(devices: List[str]) -> str:
    """One line for the log."""
    if len(devices) > 1:
        return f"{len(devices)} GPUs (MirroredStrategy)"
    return "1 GPU" if devices else "CPU"
