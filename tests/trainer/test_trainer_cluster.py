"""TF_CONFIG is read, or refused before TensorFlow would wait for workers that can't come."""

from __future__ import annotations

import json

import pytest
from orchestrator.trainer import cluster
from orchestrator.trainer.errors import BadInput

TWO = ["10.0.0.1:2222", "10.0.0.2:2222"]


def config(spec: object, kind: object = "worker", index: object = 0) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": spec, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    "environ", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}, config({"worker": TWO[:1]}), config({})]
)
def test_alone(environ: dict[str, str]) -> None:
    alone = cluster.read(environ)
    assert (alone.workers, alone.rank, alone.chief) == (1, 0, True)


def test_workers_in_their_order() -> None:
    second = cluster.read(config({"worker": TWO}, index=1))
    assert (second.addresses, second.workers, second.rank, second.chief) == (tuple(TWO), 2, 1, False)


def test_a_chief_comes_before_the_workers() -> None:
    spec = {"worker": TWO, "chief": ["10.0.0.3:1"]}
    assert cluster.read(config(spec, "chief")).rank == 0
    assert cluster.read(config(spec, "worker", 1)).rank == 2
    assert cluster.read(config(spec)).addresses == ("10.0.0.3:1", *TWO)


def test_ipv6_and_one_machine_alone() -> None:
    assert cluster.read(config({"worker": ["[fd00::1]:22", "[fd00::2]:22"]})).workers == 2
    assert cluster.read(config({"worker": ["localhost:1", "127.0.0.1:2"]})).workers == 2


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"TF_CONFIG": "{"}, "not JSON: "),
        ({"TF_CONFIG": "[]"}, "'cluster' is no object"),
        (config([]), "'cluster' is no object"),
        (config({"worker": "10.0.0.1:1"}), "'worker' is no list of host:port"),
        (
            config({"worker": TWO, "ps": ["10.0.0.9:1"]}),
            "role 'ps' is not trained here; chief and worker are",
        ),
        (config({"worker": ["10.0.0.1", TWO[1]]}), "'10.0.0.1' is not host:port"),
        (config({"worker": ["10.0.0.1:99999", TWO[1]]}), "'10.0.0.1:99999' is not host:port"),
        (config({"worker": [TWO[0], TWO[0]]}), "10.0.0.1:2222 stands there twice"),
        (
            config({"worker": ["localhost:1", TWO[1]]}),
            "localhost:1 is this machine for each worker; name it by an address the others can reach",
        ),
        (config({"worker": TWO}, index=2), "task worker 2, but the cluster has 2 of them"),
        (config({"worker": TWO}, "chief"), "task chief 0, but the cluster has 0 of them"),
        (config({"worker": TWO}, "evaluator"), "'task' needs a type (chief or worker) and an index"),
        (config({"worker": TWO}, index="1"), "'task' needs a type (chief or worker) and an index"),
    ],
)
def test_what_is_no_good_is_one_line(environ: dict[str, str], reason: str) -> None:
    with pytest.raises(BadInput) as error:
        cluster.read(environ)
    assert str(error.value).startswith(f"TF_CONFIG: {reason}")
