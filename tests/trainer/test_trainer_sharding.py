"""Each example is fed exactly once an epoch over all workers, and all workers take as many steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.trainer.conftest import Trainer

SCRIPT = str(Path(__file__).with_name("sharding.py"))


class Replica(NamedTuple):
    """What one replica is fed in one step."""

    rows: list[int]
    weights: list[float]

    @property
    def real(self) -> list[int]:
        return [row for row, weight in zip(self.rows, self.weights, strict=True) if weight > 0]


class Case(NamedTuple):
    """Counts of workers, replicas of each, examples, rows per replica; and steps that a resume leaves out."""

    workers: int
    local: int
    examples: int
    per_replica: int
    skipped: int = 0


class Fed(NamedTuple):
    """Steps of an epoch, and [step][replica over all workers] of two epochs."""

    steps: int
    replicas: list[list[Replica]]


def fed(trainer: Trainer, *cases: Case) -> list[Fed]:
    done = trainer.python_runs(SCRIPT, json.dumps(cases), TF_CPP_MIN_LOG_LEVEL="2")
    assert done.returncode == 0, done.stderr
    return [Fed(steps, by_step(workers)) for steps, workers in json.loads(done.stdout)]


def by_step(workers: list[list[list[object]]]) -> list[list[Replica]]:
    return [[Replica(*one) for worker in step for one in worker] for step in zip(*workers, strict=True)]


CASES = {
    "one device, a short last step": Case(1, 1, 70, 8),
    "two workers, no rest": Case(2, 1, 64, 8),
    "two workers, an odd rest": Case(2, 1, 71, 8),
    "three workers, one example left for all": Case(3, 1, 73, 8),
    "two workers of three replicas": Case(2, 3, 101, 4),
    "less than one step in all": Case(3, 2, 7, 4),
    "fewer examples than workers": Case(3, 1, 2, 4),
}


def test_each_example_once_an_epoch(trainer: Trainer) -> None:
    for told, case in zip(fed(trainer, *CASES.values()), CASES.values(), strict=True):
        size = case.workers * case.local * case.per_replica
        assert told.steps == -(-case.examples // size), case
        assert len(told.replicas) == 2 * told.steps
        epochs = [told.replicas[: told.steps], told.replicas[told.steps :]]
        orders = [[row for step in epoch for row in rows(step)] for epoch in epochs]
        assert [sorted(order) for order in orders] == [list(range(case.examples))] * 2, case
        assert orders[0] != orders[1] or case.examples == 2, case
        for step in told.replicas:
            check_step(step, case)
        assert [len(rows(step)) for epoch in epochs for step in epoch[:-1]] == [size] * 2 * (told.steps - 1)


def rows(step: list[Replica]) -> list[int]:
    return [row for replica in step for row in replica.real]


def check_step(step: list[Replica], case: Case) -> None:
    """All replicas share alike, and what Keras reckons is the mean over the real rows."""
    replicas = case.workers * case.local
    assert len(step) == replicas
    assert len({len(replica.rows) for replica in step}) == 1
    real, every = len(rows(step)), sum(len(replica.rows) for replica in step)
    weights = [weight for replica in step for weight in replica.weights if weight]
    assert weights == pytest.approx([every / real] * real)
    assert every - real < replicas


def test_the_workers_together_see_what_one_would(trainer: Trainer) -> None:
    """The same rows in the same steps, so the same training."""
    alone, *others = fed(trainer, *(Case(count, 1, 125, 12 // count) for count in (1, 2, 3)))
    for together in others:
        assert [rows(step) for step in together.replicas] == [rows(step) for step in alone.replicas]


def test_from_a_step_on_it_is_as_if_never_stopped(trainer: Trainer) -> None:
    """Five steps an epoch: from within the first, from the second, from within the second."""
    whole, *rests = fed(trainer, *(Case(2, 2, 71, 4, skipped) for skipped in (0, 3, 5, 7)))
    assert whole.steps == 5
    for skipped, rest in zip((3, 5, 7), rests, strict=True):
        assert rest.replicas == whole.replicas[skipped:]
