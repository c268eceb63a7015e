"""Engines other than a Docker that the account may use: rootless podman, and Docker by sudo."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Answer, Host
from .orch import Orch
from .small import IMAGE, archive
from .test_gpu_status import GPUS, pid_of, show
from .test_path import run_id, shell

NAME = "orch-ana-mnist"
WHERE = ("--hosts", "gpu01")
NVIDIA_SMI = "/usr/local/bin/nvidia-smi"
ARM = """\
program = bytearray(open("/bin/dash", "rb").read())
program[18:20] = b"\\xb7\\0"  # e_machine: AArch64
open("/tmp/arm/bin/sh", "wb").write(program)
"""
CDI = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": name, "containerEdits": {"env": ["A=1"]}} for name in ("all", "0", "1")],
    "containerEdits": {
        "mounts": [
            {"hostPath": path, "containerPath": path, "options": ["bind"]}
            for path in (NVIDIA_SMI, "/var/lib/orch-fleet/nvidia-smi")
        ]
    },
}


@pytest.fixture(autouse=True)
def clean(gpu01: Host, gpu02: Host) -> Iterator[None]:
    """Nothing of the project in any account, before and after."""
    _wipe(gpu01, gpu02)
    yield
    _wipe(gpu01, gpu02)


def _wipe(*hosts: Host) -> None:
    for host in hosts:
        host.run("rm -rf /home/*/.orch")


@pytest.fixture
def podman(orch: Orch, gpu01: Host) -> Iterator[Orch]:
    """bob, whom Docker does not let in, with podman and the small image."""
    there = f"podman image exists {IMAGE} || podman load -q -i {archive(gpu01)}"
    gpu01.run(there, user="bob")
    yield orch.using("bob").having(ORCH_ENGINE="podman", ORCH_IMAGE=IMAGE)
    gpu01.run("podman rm -fa -t 0; rm -rf .orch", user="bob", check=False)
    gpu01.run("rm -rf /etc/cdi")


def names(host: Host, *words: str) -> list[str]:
    return host.run(f"podman ps {' '.join(words)} --format '{{{{.Names}}}}'", user="bob").stdout.split()


def test_the_whole_path_by_rootless_podman(podman: Orch, gpu01: Host) -> None:
    assert "ok    podman      4." in podman("doctor", "gpu01").stdout
    made = podman("deploy", "--yes", *WHERE)
    assert re.search(r"^gpu01   no GPU   podman 4\.\d+   ", made.stderr)
    assert "user bob (1501)" in made.stdout
    counter = gpu01.counter()
    assert podman("deploy", *WHERE).stdout.startswith("gpu01   unchanged")
    assert (counter.read().connections, counter.read().execs) == (1, 1)

    where = "import os; print(os.getuid(), os.getcwd()); open('made', 'w')"
    first = run_id(podman("train", "--wait", *WHERE, "--", "python3", "-c", where).stdout)
    assert podman("tail", first).stdout == f"1501 /orch/runs/{first}/gpu01/work\n"
    made_by = f"stat -c %U .orch/ana/mnist/runs/{first}/gpu01/work/made"
    assert gpu01.run(made_by, user="bob").stdout == "bob\n"

    second = run_id(podman("train", "-d", *WHERE, "--", "sleep", "4321").stdout)
    rows = {r["run"]: r["state"] for r in json.loads(podman("ps", "gpu01", "--json").stdout)["rows"]}
    assert rows == {first: "succeeded", second: "running"}
    assert podman("exec", "gpu01", "--", "sh", "-c", "id -un; exit 7", code=7).stdout == "bob\n"
    shell(podman, "gpu01")

    show(gpu01, apps=f"GPU-a0, {pid_of(gpu01, 'sleep 4321')}, sleep, 31000\n")
    found = json.loads(podman("gpu-status", "gpu01", "--json").stdout)["rows"][0]["gpus"]
    process = found[0]["processes"][0]
    assert (process["run_id"], process["container"], process["person"]) == (second, NAME, "ana")
    gpu01.no_gpus()
    assert f"{second}   stopped" in podman("stop", second).stdout

    gpu01.run(f"podman stop {NAME}", user="bob")
    podman("train", "--wait", *WHERE, "--", "true")  # it is started
    podman("down", "--yes", *WHERE)  # podman's monitor holds no lock of ours
    assert names(gpu01, "-a") == []


def test_podman_with_a_dockerfile_of_ones_own_and_after_a_reboot(
    podman: Orch, gpu01: Host, tmp_path: Path
) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image/Dockerfile").write_text(f"FROM {IMAGE}\nCOPY word /word\nRUN cat /word > /said\n")
    (tmp_path / "image/word").write_text("from podman\n")
    podman = podman.having(ORCH_IMAGE="", ORCH_DOCKERFILE=str(tmp_path / "image/Dockerfile"))
    made = podman("deploy", "--yes", *WHERE)
    assert "./Dockerfile + sshd" in made.stderr
    assert podman("exec", "gpu01", "--", "cat", "/said").stdout == "from podman\n"

    lost = run_id(podman("train", "-d", *WHERE, "--", "sleep", "4321").stdout)
    gpu01.reboot()
    row = json.loads(podman("ps", "gpu01", "--json").stdout)["rows"][0]
    assert (row["run"], row["state"], row["cause"]) == (lost, "lost", "host rebooted")
    assert names(gpu01) == []
    podman("train", "--wait", *WHERE, "--", "cat", "/said")  # it is started again
    assert names(gpu01) == [NAME]
    assert podman("deploy", *WHERE).stdout.startswith("gpu01   unchanged")
    podman("down", "--yes", *WHERE)


def test_podman_gives_gpus_by_cdi_or_says_what_is_missing(podman: Orch, gpu01: Host) -> None:
    uuids = Answer("GPU-a0\nGPU-a1\n", match="--query-gpu=uuid *")
    gpu01.set_gpus([uuids, Answer(GPUS, match="*--query-gpu=*"), Answer("")])
    refused = podman("deploy", "--yes", *WHERE, code=1).stderr.splitlines()[-1]
    assert refused.startswith("orch: gpu01: the host's engine knows no GPUs to give to containers. Install ")
    assert "nvidia-ctk cdi generate" in refused
    assert names(gpu01, "-a") == []
    gpu01.run("mkdir /etc/cdi && cat >/etc/cdi/nvidia.json", input=json.dumps(CDI))
    made = podman.having(ORCH_GPUS="2")("deploy", "--yes", *WHERE)
    assert "gpus 2" in made.stderr
    assert "2 of 2 GPUs" in made.stdout


def test_what_podman_lacks_is_said_before_anything_is_done(orch: Orch, gpu01: Host) -> None:
    wanted = orch.using("bob").having(ORCH_ENGINE="podman")
    gpu01.run("cp /etc/subuid /etc/subgid /tmp; sed -i /^bob:/d /etc/subuid /etc/subgid")
    try:
        gpu01.run("podman system migrate", user="bob", check=False)
        refused = wanted("deploy", "--yes", *WHERE, code=77).stderr
    finally:
        gpu01.run("cp /tmp/subuid /tmp/subgid /etc")
        gpu01.run("podman system migrate", user="bob", check=False)
    assert refused.startswith(
        "orch: gpu01: podman has no subordinate user ids for this account. As root there: "
    )
    assert "--add-subgids 100000-165535 bob" in refused
    other = wanted.having(ORCH_ENGINE_COMMAND="docker").using("ana")("deploy", "--yes", *WHERE, code=1)
    assert other.stderr == "orch: gpu01: docker is docker here. Set engine = docker.\n"
    other = orch.having(ORCH_ENGINE_COMMAND="podman")("deploy", "--yes", *WHERE, code=1)
    assert other.stderr == "orch: gpu01: podman is podman here. Set engine = podman.\n"


# Docker by sudo


@pytest.fixture
def sudo(orch: Orch, gpu01: Host) -> Iterator[Orch]:
    """bob, who is not in the group docker, calls it by sudo; `sudoers` gives him the rule."""
    yield orch.using("bob").having(ORCH_ENGINE_COMMAND="sudo -n docker")
    gpu01.run(f"docker ps -aq --filter name={NAME} | xargs -r docker rm -f")
    gpu01.run("rm -rf /home/bob/.orch /etc/sudoers.d/bob")


def sudoers(host: Host, rule: str) -> None:
    host.run(f"echo {shlex.quote(rule)} > /etc/sudoers.d/bob && chmod 440 /etc/sudoers.d/bob")


def test_docker_by_sudo(sudo: Orch, gpu01: Host, tmp_path: Path) -> None:
    sudoers(gpu01, "bob ALL=(root) NOPASSWD:SETENV: /usr/bin/docker")
    lines = "one\n  two's\n"
    (tmp_path / "env").write_text("LINES_OF\n")
    secret = sudo.having(ORCH_ENV_FILE=str(tmp_path / "env"), LINES_OF=lines)
    assert "user bob (1501)" in secret("deploy", "--yes", *WHERE).stdout
    assert secret("exec", "gpu01", "--", "printenv", "LINES_OF").stdout == lines + "\n"
    run = run_id(secret("train", "-d", *WHERE, "--", "sleep", "4321").stdout)
    show(gpu01, apps=f"GPU-a0, {pid_of(gpu01, 'sleep 4321')}, sleep, 31000\n")
    process = json.loads(secret("gpu-status", "gpu01", "--json").stdout)["rows"][0]["gpus"][0]["processes"][0]
    assert (process["run_id"], process["container"]) == (run, NAME)
    gpu01.no_gpus()
    assert secret("exec", run, "--", "id", "-u").stdout == "1501\n"
    assert f"{run}   stopped" in secret("stop", run).stdout
    secret("down", "--yes", *WHERE)
    assert NAME not in gpu01.containers(all=True)


def test_a_sudo_that_asks_or_refuses_is_one_clear_line(sudo: Orch, gpu01: Host) -> None:
    sudoers(gpu01, "bob ALL=(root) /usr/bin/docker")
    how = "As root there, by visudo: bob ALL=(root) NOPASSWD:SETENV: /usr/bin/docker.\n"
    german = "echo 'export LANG=de_DE.UTF-8 LANGUAGE=de' >> /home/bob/.profile"
    gpu01.run(f"cp /home/bob/.profile /tmp/profile && {german}")
    try:
        for command in ("sudo -n docker", "sudo docker"):
            asked = sudo.having(ORCH_ENGINE_COMMAND=command)
            for verb in ("deploy", "down"):
                said = asked(verb, "--yes", *WHERE, code=77).stderr
                assert said == f"orch: gpu01: sudo asks for a password. {how}"
    finally:
        gpu01.run("cp /tmp/profile /home/bob/.profile")
    sudoers(gpu01, "bob ALL=(root) NOPASSWD: /usr/bin/true")
    assert f"sudo asks for a password. {how}" in sudo("deploy", "--yes", *WHERE, code=77).stderr
    gpu01.run("rm /etc/sudoers.d/bob")
    assert "gpu01: sudo " in sudo("deploy", "--yes", *WHERE, code=77).stderr


# What a real Docker says of images and disks


def test_an_image_for_another_kind_of_processor(orch: Orch, gpu01: Host) -> None:
    gpu01.run("mkdir -p /tmp/arm/bin /tmp/arm/etc && head -n 1 /etc/passwd >/tmp/arm/etc/passwd")
    gpu01.run("python3 - && chmod 755 /tmp/arm/bin/sh", input=ARM)
    gpu01.run("tar -C /tmp/arm -c . | docker import - orch-arm:1")
    refused = orch.having(ORCH_IMAGE="orch-arm:1")("deploy", "--yes", *WHERE, code=78)
    assert refused.stderr.splitlines()[-1] == (
        "orch: gpu01: orch-arm:1 is for another kind of processor than the host's. Set `image` to one for it."
    )
    assert NAME not in gpu01.containers(all=True)


def test_a_disk_of_docker_without_inodes_while_df_shows_room(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    there = ("--hosts", "gpu02")
    small = orch.having(ORCH_IMAGE=IMAGE)
    with gpu02.small_disk("/small", "1g"), gpu02.docker_with(data_root="/small/docker"):
        gpu02.docker("load", "-q", "-i", archive(gpu01))
        gpu02.run("mount -o remount,nr_inodes=$(($(df --output=iused /small | tail -n 1) + 60)) /small")
        full = small("deploy", "--yes", *there, code=1).stderr.splitlines()[-1]
        checks = json.loads(small("doctor", "gpu02", "--json", code=1).stdout)["rows"][0]["checks"]
    assert full.startswith("orch: gpu02: no space is left on the host. Make room (")
    assert "df -i" in full
    (inodes,) = (check for check in checks if check["name"] == "inodes")
    assert (inodes["level"], "left in /small/docker" in inodes["message"]) == ("fail", True)
