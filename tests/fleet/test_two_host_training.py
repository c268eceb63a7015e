"""TensorFlow on two real hosts at once, by published ports of containers and by the hosts' network."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Fleet, Host
from .orch import Orch, make_project

BOTH = "gpu01,gpu02"
BRIDGE = {"ORCH_PROJECT": "by bridge", "ORCH_CLUSTER_PORTS": "21300-21305"}
NETWORK = {"ORCH_PROJECT": "by host", "ORCH_NETWORK": "host"}
SIGNALS = (134, 139)
"""What a worker of TensorFlow 2.9 may end with after all of its work: it dies while Python shuts down."""


@pytest.fixture(scope="module", params=[BRIDGE, NETWORK], ids=["bridge", "host"])
def two(
    fleet: Fleet, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Orch]:
    base = tmp_path_factory.mktemp("two")
    project = make_project(base / "mnist")
    shutil.copyfile(Path(__file__).with_name("two_workers.py"), project / "two_workers.py")
    orch = Orch(fleet, home=base / "home", cwd=project, account="ana").having(**request.param)
    orch("deploy", "--yes", "--hosts", BOTH, timeout=600)
    yield orch
    orch("down", "--yes", "--replace", "--hosts", BOTH, code=None)


def accuracy(said: str) -> float:
    found = re.findall(r"test accuracy ([01]\.\d+)", said)
    assert found, said
    return float(found[-1])


def test_the_trainer_learns_on_two_hosts_what_it_learns_on_one(two: Orch, gpu01: Host, gpu02: Host) -> None:
    """The same global batch and learning rate on both; the chief alone leaves a model."""
    flags = ("--epochs=4", "--scaling=none")
    one = two("train", "--wait", "--hosts", "gpu01", "--", *flags, "--batch_size=32", timeout=600)
    both = two("train", "--wait", "--hosts", BOTH, "--", *flags, "--batch_size=16", timeout=600)
    assert "TF_CONFIG" not in one.stdout
    assert accuracy(both.stdout) == pytest.approx(accuracy(one.stdout), abs=0.02)
    assert accuracy(both.stdout) > 0.9
    run = both.stdout.split()[1]
    where = f"/home/ana/.orch/ana/*/runs/{run}/{{0}}/work/saved_model/saved_model.pb"
    assert gpu01.run(f"ls {where.format('gpu01')}").stdout
    assert gpu02.run(f"ls {where.format('gpu02')}", check=False).returncode


def test_an_ordinary_script_of_two_workers_runs_unchanged(two: Orch, gpu01: Host, gpu02: Host) -> None:
    done = two("train", "--wait", "--hosts", BOTH, "--", "python3", "two_workers.py", code=None, timeout=600)
    assert done.returncode in (0, *SIGNALS), done.stdout + done.stderr
    found = dict(re.findall(r"^gpu0\d \| accuracy of worker (\d): ([01]\.\d+)$", done.stdout, re.MULTILINE))
    assert set(found) == {"0", "1"}, done.stdout
    assert found["0"] == found["1"]
    assert float(found["0"]) > 0.9
    for host in (gpu01, gpu02):
        assert not host.run("pgrep -af 'supervise[.]py'", check=False).stdout
