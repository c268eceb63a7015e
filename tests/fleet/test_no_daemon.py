"""Engines without a daemon on real hosts, by ssh: apptainer (the real one), the account's own, auto."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Fleet, Host, LabError, apptainer
from .lab.shell import wait_until
from .orch import Orch
from .serving import way

PLACE = "/home/ana/.orch/ana/mnist"


@pytest.fixture(autouse=True)
def clean(gpu01: Host) -> Iterator[None]:
    gpu01.run("rm -rf /home/*/.orch")
    yield
    gpu01.run("rm -rf /home/*/.orch")


@pytest.fixture(scope="module")
def image(fleet: Fleet) -> Iterator[str]:
    """The path of the base image on gpu01, which has apptainer."""
    try:
        apptainer.install(fleet, fleet["gpu01"])
    except LabError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"not tested with a real apptainer: {error}")
    yield apptainer.IMAGE
    apptainer.uninstall(fleet["gpu01"])


def test_apptainer_trains_by_every_verb(orch: Orch, gpu01: Host, image: str, tmp_path: Path) -> None:
    gpu01.run("mkdir -p /srv/sets && echo 42 > /srv/sets/one && chmod -R a+rX /srv/sets")
    orch = orch.having(
        ORCH_ENGINE="apptainer", ORCH_IMAGE=image, ORCH_VOLUMES="/srv/sets:/data:ro", ORCH_ENV='SEED="4 2"',
        ORCH_REQUIREMENTS="humanize<4.10",
    )  # fmt: skip
    planned = orch("deploy", "--dry-run", "gpu01").stdout
    assert f"  image      use      {image}   apptainer 1." in planned
    assert "  packages   install  1 package" in planned
    assert gpu01.run(f"ls {PLACE}", check=False).returncode
    made = orch("deploy", "--yes", "gpu01").stdout
    assert "Python 3.9.2   TensorFlow 2.9.3   user ana (1500)" in made
    assert orch("deploy", "gpu01").stdout.startswith("gpu01   unchanged   Python 3.9.2")

    show = (
        "import humanize, os;"
        "print(os.environ['SEED'], open('/data/one').read(), os.getcwd(), humanize.__file__)"
    )
    seen = orch("exec", "gpu01", "--", "python3", "-c", show).stdout.split()
    assert seen[:4] == ["4", "2", "42", "/workspace"]
    assert seen[4].startswith("/orch/venv/")
    orch("exec", "gpu01", "--", "touch", "/data/two", code=1)
    assert orch("exec", "gpu01", "--", "sh", "-c", "exit 7", code=7).stdout == ""
    assert orch("ssh", "gpu01", "--", "pwd; id -un").stdout.split() == ["/workspace", "ana"]

    orch("train", "--wait", "--hosts", "gpu01", "--name", "one", "--", "python3", "train.py")
    orch("train", "-d", "--hosts", "gpu01", "--name", "two", "--", "sleep", "600")
    assert "running" in orch("ps").stdout
    assert orch("exec", "two", "--", "sh", "-c", "echo $ORCH_RUN_DIR").stdout.startswith("/orch/runs/")
    assert "stopped" in orch("stop", "two", "--now").stdout
    wait_until("nothing is left of it", lambda: gpu01.run("pgrep -x sleep -u ana", check=False).returncode)
    assert "trained" in orch("tail", "one").stdout
    with way(orch, "tensorboard", "one") as one:  # by the host's own connection: no sshd is in there
        assert (one.get()[0], one.leave()) == (200, 130)
    orch("stop", one.run)
    orch("fetch", "one", "--to", tmp_path / "back")
    assert list((tmp_path / "back").rglob("checkpoint"))
    assert "engine apptainer has no sshd" in orch("ssh-config", "gpu01").stdout
    assert "apptainer version 1." in orch("doctor", "-v", "gpu01").stdout
    orch("down", "--yes", "gpu01")
    left = ["audit.log", "bundles", "home", "hosts", "owner.json", "runs", "workspace"]
    assert gpu01.run(f"ls {PLACE}").stdout.split() == left


def test_auto_takes_what_this_account_may_use(orch: Orch, gpu01: Host, image: str) -> None:
    orch = orch.having(ORCH_ENGINE="auto", ORCH_IMAGE=image)
    bobs = orch.using("bob")
    # podman may be on the machine, and so on its hosts
    podman = "/usr/local/bin/podman"
    gpu01.run(f"printf '#!/bin/sh\\necho no >&2; exit 1\\n' > {podman}; chmod 755 {podman}")
    planned = bobs("deploy", "--dry-run", "gpu01").stdout
    assert (
        "  engine     auto     apptainer (docker is not allowed for bob; podman does not answer: no)"
        in planned
    )
    bobs("deploy", "--yes", "gpu01")
    gpu01.run("usermod -aG docker bob")
    try:
        assert bobs("deploy", "gpu01").stdout.startswith("gpu01   unchanged"), "it stays with what it picked"
        bobs("down", "--yes", "gpu01")
        first = bobs.having(ORCH_IMAGE="")("deploy", "--dry-run", "gpu01").stdout
        assert "  engine     auto     docker (it answers)" in first
    finally:
        gpu01.run("gpasswd -d bob docker; rm -f /usr/local/bin/podman")


def test_the_accounts_own_environment(orch: Orch, gpu01: Host, project: Path) -> None:
    """An environment as conda gives one, or a cluster's modules: it exists only after a line of bash."""
    gpu01.run("python3 -m venv --without-pip ~/miniconda", user="ana")
    orch = orch.having(ORCH_ENGINE="host", ORCH_ACTIVATE="source ~/miniconda/bin/activate")
    assert "/home/ana/miniconda/bin/python3" in orch("deploy", "--dry-run", "gpu01").stdout
    assert "no TensorFlow   user ana" in orch("deploy", "--yes", "gpu01").stdout
    (project / "where.py").write_text("import sys; print(sys.prefix)\n")
    said = orch("train", "--wait", "--hosts", "gpu01", "--name", "w", "--", "python3", "where.py").stdout
    assert "/home/ana/miniconda\n" in said
    # what environment-modules leaves for login shells, cut down to one module
    modules = 'module() { [ "$1 $2" = "load tf/2.9" ] && export PATH=$HOME/miniconda/bin:$PATH; }'
    gpu01.run("cat > /etc/profile.d/modules.sh", input=modules + "\n")
    by_module = orch.having(ORCH_ACTIVATE="module load tf/2.9")
    assert "/home/ana/miniconda/bin/python3" in by_module("deploy", "--dry-run", "gpu01").stdout
    gpu01.run("rm /etc/profile.d/modules.sh")
    gpu01.run("rm -rf ~/miniconda", user="ana")
    assert "No such file" in orch("exec", "gpu01", "--", "true", code=1).stderr
    told = orch("deploy", "--yes", "gpu01", code=78).stderr
    assert told.startswith(
        "orch: ORCH_ACTIVATE: activate: `source ~/miniconda/bin/activate` ended with status 1"
    )
    assert orch("down", "--yes", "gpu01").stdout.startswith("gpu01   down")


def test_fewer_gpus_seen_than_there_are_is_a_failure(orch: Orch, gpu01: Host, image: str) -> None:
    from .test_gpu_status import show

    show(gpu01)
    orch = orch.having(ORCH_ENGINE="apptainer", ORCH_IMAGE=image)
    # --nv brings the driver's files; the stand-in is none of them, so that no GPU is seen inside
    failed = orch("deploy", "--yes", "gpu01", code=1)
    assert "0 of 3 GPUs are seen from inside" in failed.stderr
    assert gpu01.run(f"ls {PLACE}/hosts/gpu01/environment.json", check=False).returncode
    assert gpu01.run(f"ls {PLACE}/hosts/gpu01/enter.part", check=False).returncode
