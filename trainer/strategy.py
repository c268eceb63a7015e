"""Where to train: on one device, on all GPUs of this host, or on several hosts. Made before anything else."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, List, NamedTuple

from .cluster import Cluster
from .errors import BadInput, TrainerError

if TYPE_CHECKING:
    import tensorflow as tf


class Place(NamedTuple):
    """The strategy, and how many workers (processes) and replicas (devices) train together."""

    strategy: tf.distribute.Strategy
    cluster: Cluster
    gpus: int

    @property
    def replicas(self) -> int:
        """Devices over all workers: each takes --batch_size examples a step."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def workers(self) -> int:
        """Processes that train together."""
        return self.cluster.workers

    @property
    def local(self) -> int:
        """Devices of this worker; all workers have as many."""
        return self.replicas // self.workers

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self.cluster.rank

    @property
    def chief(self) -> bool:
        """Whether this worker writes what is kept."""
        return self.cluster.chief

    def __str__(self) -> str:
        """One line for the log."""
        here = f"{self.gpus} GPU{'s' * (self.gpus > 1)}" if self.gpus else "CPU"
        if self.workers > 1:
            return f"{here}, worker {self.rank} of {self.workers} (MultiWorkerMirroredStrategy)"
        return f"{here} (MirroredStrategy)" if self.replicas > 1 else here


def before_tensorflow(cluster: Cluster) -> None:
    """Let Keras 2 train several workers: Keras 3 can't. Raises TrainerError when it isn't installed."""
    if cluster.workers == 1 or not keras_3():
        return
    if importlib.util.find_spec("tf_keras") is None:
        raise TrainerError(
            "several workers need Keras 2, as Keras 3 can't train them "
            f"(pip install tf_keras, for {sys.executable})"
        )
    os.environ["TF_USE_LEGACY_KERAS"] = "1"


def keras_3() -> bool:
    """Whether this TensorFlow brings Keras 3. Looks, and imports nothing."""
    from importlib import metadata

    try:
        return int(metadata.version("keras").partition(".")[0]) >= 3
    except (metadata.PackageNotFoundError, ValueError):
        return False


def choose(options: argparse.Namespace, cluster: Cluster) -> Place:
    """Set TensorFlow up and choose the strategy; nothing may be done with TensorFlow before.

    Raises BadInput where NCCL is asked for without a GPU.
    """
    import tensorflow as tf

    physical = grow()
    if options.communication == "nccl" and not physical:
        raise BadInput(
            "--communication nccl: NCCL needs GPUs, and this TensorFlow sees none; use ring or auto"
        )
    if options.deterministic:
        tf.config.experimental.enable_op_determinism()
    if cluster.workers > 1:  # before any device is used: it can't join the others afterwards
        place = Place(together(options.communication), cluster, physical)
    else:
        devices = gpus()
        several = len(devices) > 1
        mirrored = tf.distribute.MirroredStrategy(devices) if several else tf.distribute.get_strategy()
        place = Place(mirrored, cluster, len(devices))
    set_up(options, place)
    return place


def grow() -> int:
    """Let memory grow on all GPUs and return how many there are. It can't be done once a GPU is in use."""
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    for gpu in found:
        tf.config.experimental.set_memory_growth(gpu, True)
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if given not in ("", "-1") and not found:
        reason = f"CUDA_VISIBLE_DEVICES is {given}, but this TensorFlow sees no GPU"
        print(f"trainer: training on the CPU: {reason}", file=sys.stderr, flush=True)
    return len(found)


def gpus() -> List[str]:
    """Names of the GPUs; from here on they are in use."""
    import tensorflow as tf

    return [gpu.name for gpu in tf.config.list_logical_devices("GPU")]


def together(communication: str) -> tf.distribute.Strategy:
    """The strategy for all workers of TF_CONFIG; waits until all are there."""
    import tensorflow as tf

    ways = tf.distribute.experimental.CommunicationImplementation
    hints = tf.distribute.experimental.CommunicationOptions(implementation=ways[communication.upper()])
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=hints)


def set_up(options: argparse.Namespace, place: Place) -> None:
    """The seed of all random numbers, the precision, and XLA where Keras can't ask for it itself."""
    import tensorflow as tf
    from tensorflow import keras

    keras.utils.set_random_seed(options.seed)
    if options.mixed_precision:
        keras.mixed_precision.set_global_policy(f"mixed_{options.mixed_precision}")
    if options.xla and place.replicas > 1:  # a step with a reduction over replicas can't be one XLA program
        tf.config.optimizer.set_jit(True)
