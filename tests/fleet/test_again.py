"""What ran runs again: on after a reboot, and from its start on another host with the first one down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.until import until

from .lab import Host
from .orch import Orch
from .small import IMAGE, built
from .test_path import run_id

TRAIN = """
import os, time
os.makedirs("checkpoints", exist_ok=True)
done = max([int(name) for name in os.listdir("checkpoints")] + [0])
print("from epoch", done, "with", VERSION, flush=True)
for epoch in range(done + 1, 4):
    open(f"checkpoints/{epoch}", "w").write("weights")
    print("epoch", epoch, flush=True)
    while epoch == 2 and os.path.exists("wait"): time.sleep(0.1)
"""


@pytest.fixture
def deployed(orch: Orch, gpu01: Host, gpu02: Host) -> Iterator[Orch]:
    """The person's container of a small image on both hosts."""
    orch = orch.having(ORCH_IMAGE=IMAGE)
    for host in (gpu01, gpu02):
        host.run(f"docker load -qi {built(orch, gpu01)}")
    orch("deploy", "--yes", "--hosts", "gpu01,gpu02")
    yield orch
    for host in (gpu01, gpu02):
        host.run("docker rm -f orch-ana-mnist; rm -rf /home/ana/.orch/ana/mnist", check=False)


def code(orch: Orch, version: str) -> None:
    (orch.cwd / "train.py").write_text(TRAIN.replace("VERSION", f'"{version}"'))


def spec_of(host: Host, run: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(host.run(f"cat /home/ana/.orch/ana/mnist/runs/{run}/spec.json").stdout)
    return spec


def test_on_after_a_reboot_and_anew_with_the_host_down(deployed: Orch, gpu01: Host, gpu02: Host) -> None:
    site = "$(python3 -c 'import site; print(site.getusersitepackages())')"
    deployed("exec", "gpu01", "--", "sh", "-c", f'mkdir -p "{site}/by_hand-1.2.dist-info"')
    code(deployed, "v1")
    (deployed.cwd / "wait").touch()
    train = (
        "train",
        "-d",
        "--hosts",
        "gpu01",
        "--name",
        "nightly",
        "--env",
        "LR=1",
        "--",
        "python3",
        "train.py",
    )
    first = run_id(deployed(*train).stdout)
    deployed(*train, code=75)
    spec = spec_of(gpu01, first)
    assert (spec["packages"], spec["env"], spec["image"]["name"]) == (
        ["by-hand==1.2"],
        ["LR"],
        "orch-small:1",
    )
    assert re.match("sha256:", spec["image"]["id"])
    assert spec["orch_env"]
    until(lambda: "epoch 2" in deployed("tail", "--no-follow", first).stdout)

    gpu01.reboot()
    assert "host rebooted" in deployed("ps", "gpu01").stdout
    (deployed.cwd / "wait").unlink()
    code(deployed, "v2")
    said = deployed("resume", "--wait", "nightly", "--env", "LR=2")
    second = run_id(said.stdout)
    assert "from epoch 2 with v2\nepoch 3\n" in said.stdout
    assert f"work    that of {first}" in said.stderr
    assert f"image   the same as {first} had" in said.stderr
    assert (
        f"goes on as {second} already. Resume that one: orch resume {second}"
        in deployed("resume", first, code=1).stderr
    )
    assert spec_of(gpu01, second)["parent"] == {"run": first, "kind": "resume"}

    shown = deployed(
        "resume", "nightly", "--hosts", "gpu02", "--wait", "--env", "LR=2", "--", "ls", "checkpoints"
    )
    assert "1\n2\n3\n" in shown.stdout

    with gpu01.unreachable():
        away = deployed("resume", second, "--env", "LR=3", code=69).stderr
        assert "orch rerun" in away
        assert "--hosts gpu02" in away
        (deployed.cwd / "train.py").unlink()
        said = deployed("rerun", second, "--hosts", "gpu02", "--wait", "--env", "LR=3")
        assert "from epoch 0 with v2\nepoch 1\nepoch 2\nepoch 3\n" in said.stdout
        assert re.search(rf"^image   (the same as|rebuilt: another id than) {second} had", said.stderr, re.M)
        assert f"note: {second} also had, installed by hand: by-hand==1.2" in said.stderr
        assert f"{run_id(said.stdout)} succeeded" in said.stderr
