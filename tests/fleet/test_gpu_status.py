"""orch gpu-status and orch doctor on real hosts; only nvidia-smi is a stand-in."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import IO, Any

import pytest

from .lab import Answer, Host
from .lab.shell import wait_until
from .orch import Orch

IMAGE = "tensorflow/tensorflow:2.9.3"
RUN = "20261130-0214-nightly-7f3a"
GPUS = """\
0, GPU-a0, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 31744, 87, 64, 310.44, Disabled
1, GPU-a1, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 11264, 0, 31, 52.10, Disabled
2, GPU-a2, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 4, 0, 31, 52.10, Disabled
"""


def show(host: Host, gpus: str = GPUS, apps: str = "", delay: float = 0) -> None:
    host.set_gpus(
        [Answer(gpus, match="*--query-gpu=*", delay=delay), Answer(apps, match="*--query-compute-apps=*")]
    )


def pid_of(host: Host, pattern: str) -> int:
    """The pid, as the host sees it, of the process whose whole command line is this."""

    def found() -> list[str]:
        return host.run(f"pgrep -xf '{pattern}'", check=False).stdout.split()

    wait_until(pattern, found)
    return int(found()[0])


@pytest.fixture
def training(gpu01: Host) -> Iterator[int]:
    """A process under a supervisor in a container of orch; yields its pid on the host."""
    code = 'import subprocess; subprocess.call(["sleep", "4321"])'
    command = (
        f"echo '{code}' >/tmp/supervise.py; exec python3 /tmp/supervise.py --person ana --run {RUN} -- x"
    )
    labels = ["--label", "orch.person=ana", "--label", "orch.project=mnist"]
    gpu01.docker("run", "-d", "--name", "orch-ana-gpus", *labels, IMAGE, "sh", "-c", command)
    yield pid_of(gpu01, "sleep 4321")
    gpu01.docker("rm", "-f", "orch-ana-gpus")


@pytest.fixture
def stranger(gpu01: Host) -> Iterator[int]:
    gpu01.run("setsid sleep 1234 >/dev/null 2>&1 </dev/null &", user="bob")
    pid = pid_of(gpu01, "sleep 1234")
    yield pid
    gpu01.run(f"kill {pid}")


def test_every_gpu_with_its_run_its_container_and_its_stranger(
    gpu01: Host, gpu02: Host, orch: Orch, training: int, stranger: int
) -> None:
    show(gpu01, apps=f"GPU-a0, {training}, python3, 31000\nGPU-a1, {stranger}, /usr/bin/sleep, 11000\n")
    counters = [gpu01.counter(), gpu02.counter()]
    first, *rows, last = orch("gpu-status").stdout.splitlines()
    assert first == "gpu01   3 x A100-SXM4-40GB"
    assert [row.split("   ")[-1].split(",")[0] for row in rows] == [
        "ana: nightly",
        "bob: sleep (outside orch",
        "free",
    ]
    assert last == "gpu02   no GPU (nvidia-smi not found)"
    assert [(c.read().connections, c.read().execs) for c in counters] == [(1, 1), (1, 1)]

    found = json.loads(orch("gpu-status", "gpu01", "--json").stdout)["rows"][0]["gpus"]
    process = found[0]["processes"][0]
    assert (process["run_id"], process["container"]) == (RUN, "orch-ana-gpus")
    assert [gpu["free"] for gpu in found] == [False, False, True]


def test_a_hanging_host_is_a_row_and_a_dead_one_too(gpu01: Host, gpu02: Host, orch: Orch) -> None:
    show(gpu01, delay=300)
    began = time.monotonic()
    with gpu02.unreachable():
        done = orch.having(ORCH_TIMEOUT="8")("gpu-status", code=1)
    slow, dead = done.stdout.splitlines()
    assert slow.startswith("gpu01   nvidia-smi did not answer in 20 s. Turn on persistence mode")
    assert dead.startswith("gpu02   unreachable: ")
    assert time.monotonic() - began < 100  # it would be silent for 300
    assert "Traceback" not in done.stderr


def block(out: IO[str]) -> list[str]:
    """The lines up to the next blank one."""
    return [line.rstrip() for line in iter(out.readline, "\n")]


def test_watch_keeps_one_connection_and_outlives_its_loss(gpu01: Host, orch: Orch) -> None:
    counter = gpu01.counter()
    words = orch.argv("gpu-status", "gpu01", "--watch", "0.3")
    with subprocess.Popen(
        words, cwd=orch.cwd, env=orch.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        for _ in range(3):
            assert block(watching.stdout)[0] == "gpu01   no GPU (nvidia-smi not found)"
        assert counter.read().connections == 1
        gpu01.stop_sshd()
        while "no GPU" in (row := block(watching.stdout)[0]):
            pass
        assert row == "gpu01   connection lost"
        gpu01.start_sshd()
        while "no GPU" not in block(watching.stdout)[0]:
            pass
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
        assert watching.stderr is not None
        assert watching.stderr.read().strip() == ""


def checks(orch: Orch, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    found = json.loads(orch("doctor", "gpu01", "--json", *words, code=code).stdout)["rows"]
    return {check["name"]: check for check in found[0]["checks"]}


def test_doctor_on_a_host_that_can_do_the_job(gpu01: Host, orch: Orch) -> None:
    counter = gpu01.counter()
    found = checks(orch)
    assert {c["level"] for c in found.values()} == {"ok"}
    assert found["login"]["message"].startswith("ana (1500), Debian")
    assert (counter.read().connections, counter.read().execs) == (1, 1)


def test_doctor_without_the_right_to_use_docker(gpu01: Host, orch: Orch) -> None:
    found = checks(orch.using("bob"), code=1)
    assert found["docker"]["level"] == "fail"
    assert "may not use it" in found["docker"]["message"]
    assert "usermod -aG docker bob" in found["docker"]["hint"]


def test_doctor_without_a_docker_daemon(gpu01: Host, orch: Orch) -> None:
    gpu01.stop_docker()
    found = checks(orch, code=1)
    assert found["docker"]["message"] == "the Docker daemon does not run"


def test_doctor_with_a_taken_port_a_missing_volume_and_a_full_disk(gpu01: Host, orch: Orch) -> None:
    gpu01.docker("run", "-d", "--name", "orch-bob-speech", "-p", "127.0.0.1:2299:22", IMAGE, "sleep", "600")
    settings = {"ORCH_SSH_PORT": "2299", "ORCH_VOLUMES": "/srv/nowhere:/data", "ORCH_ROOT": "/small/orch"}
    try:
        with gpu01.small_disk("/small", "8m", full=True):
            gpu01.run("chmod 777 /small")
            found = checks(orch.having(**settings), code=1)
    finally:
        gpu01.docker("rm", "-f", "orch-bob-speech")
    assert found["ssh port"]["message"] == "port 2299 is taken by container orch-bob-speech"
    assert found["ssh port"]["hint"] == "Set ssh_port = auto for gpu01 (ORCH_SSH_PORT), or another port."
    assert found["volumes"]["message"] == "not on the host: /srv/nowhere"
    assert found["root"]["level"] == "fail"
    assert "free in /small/orch" in found["root"]["message"]


def test_doctor_says_when_a_registry_can_not_be_asked(gpu01: Host, orch: Orch) -> None:
    found = checks(orch.having(ORCH_IMAGE="registry.invalid/nobody/nothing:1"))
    assert found["image"]["level"] == "skip"
    assert "could not be asked" in found["image"]["message"]


def test_doctor_on_an_old_driver(gpu01: Host, orch: Orch) -> None:
    show(gpu01, gpus=GPUS.replace("535.183.01", "440.33.01"))
    found = checks(orch, code=1)
    assert found["gpus"]["message"] == "3 x A100-SXM4-40GB"
    assert "440.33.01 is too old" in found["driver"]["message"]
    assert found["toolkit"]["level"] == "fail"  # this Docker has no NVIDIA runtime


def test_doctor_where_no_host_is_reached(gpu01: Host, gpu02: Host, orch: Orch) -> None:
    with gpu01.unreachable(), gpu02.unreachable():
        done = orch.having(ORCH_TIMEOUT="2")("doctor", code=69)
    assert "FAIL  reachable" in done.stdout
