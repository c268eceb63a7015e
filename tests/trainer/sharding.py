"""What each of several workers is fed, in one process: their real tf.data pipelines, one after the other.

Takes a JSON list of cases, each the counts of workers, replicas of each, examples, rows per replica and steps
skipped. Prints a JSON list: for each case the steps of an epoch, and for two epochs, each worker, step and
replica its rows and weights.
"""

import json
import sys

import numpy as np

from trainer.examples import Arrays
from trainer.pipeline import Share, shuffled, stream


def fed(share: Share, skipped: int) -> list:
    """For each step of two epochs but the skipped ones, for each replica: rows and weights."""
    part = Arrays(np.arange(share.examples)[:, None, None, None], np.arange(share.examples))
    epoch, step = divmod(skipped, share.steps)
    steps = iter(stream(part, share, lambda number: shuffled(share.examples, 7, number), epoch, step))
    found = []
    for _ in range(2 * share.steps - skipped):
        replicas = [next(steps) for _ in range(share.local)]
        assert all((x.numpy().reshape(-1) == y.numpy()).all() for x, y, _ in replicas)
        found.append([[y.numpy().tolist(), weight.numpy().tolist()] for _, y, weight in replicas])
    return found


told = []
for workers, local, examples, per_replica, skipped in json.loads(sys.argv[1]):
    shares = [Share(examples, per_replica, workers, local, rank) for rank in range(workers)]
    assert len({share.steps for share in shares}) == 1
    told.append([shares[0].steps, [fed(share, skipped) for share in shares]])
print(json.dumps(told))
