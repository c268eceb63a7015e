"""Workers of one run on real hosts, of which one ends badly: all end, with the right cause, without orch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.until import until

from . import small
from .lab import Fleet, Host
from .orch import Orch, make_project

BOTH = "gpu01,gpu02"
ROOT = "/home/ana/peers"
HALF = 90.0  # seconds: half a minute of silence, and what else an end takes on a machine with much to do


@pytest.fixture(scope="module")
def deployed(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orch]:
    base = tmp_path_factory.mktemp("peers")
    orch = Orch(fleet, home=base / "home", cwd=make_project(base / "mnist"), account="ana")
    shutil.copyfile(Path(__file__).with_name("peers.py"), orch.cwd / "peers.py")
    archive = small.archive(fleet["gpu01"])
    for host in fleet.hosts.values():
        host.docker("load", "-i", archive)
    ports = {"ORCH_PROJECT": "mnist", "ORCH_CLUSTER_PORTS": "21200-21207"}
    orch = orch.having(ORCH_IMAGE=small.IMAGE, ORCH_ROOT=ROOT, **ports)
    orch("deploy", "--yes", "--hosts", BOTH, timeout=600)
    yield orch
    for host in fleet.hosts.values():
        host.restore()
    orch("down", "--yes", "--replace", "--hosts", BOTH, code=None)


@pytest.fixture
def orch(deployed: Orch, gpu01: Host, gpu02: Host) -> Iterator[Orch]:
    """Both containers are up; what a test left running ends with it."""
    for host in (gpu01, gpu02):
        until(lambda: container(host) in host.containers(), "the container")
    yield deployed
    for host in (gpu01, gpu02):
        host.restore()
    living = [row["run"] for row in rows(deployed) if row["state"] in ("starting", "running")]
    if living:
        deployed("stop", "--now", *set(living), code=None)


def container(host: Host) -> str:
    """The name of the project's container."""
    (name,) = [name for name in host.containers(all=True) if "mnist" in name]
    return name


def rows(orch: Orch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(orch("ps", "-a", "--json", code=None).stdout)["rows"]
    return found


def row(orch: Orch, run: str, host: str) -> dict[str, Any]:
    (found,) = [r for r in rows(orch) if (r["run"], r["host"]) == (run, host)]
    return found


def launch(orch: Orch, *options: str) -> str:
    """Start two workers that go on and on; return the run's id when both do."""
    words = ("train", "-d", *options, "--hosts", BOTH, "--", "python3", "peers.py", "hold")
    return orch(*words).stdout.split()[1]


def record(host: Host, run: str) -> dict[str, Any]:
    """The worker's state.json, read on its host without orch."""
    path = f"{ROOT}/ana/mnist/runs/{run}/{host.name}/state.json"
    text = host.run(f"cat {path}", check=False).stdout
    return json.loads(text) if text else {}


def commands(host: Host) -> str:
    """The processes of runs that a host has."""
    return host.run("pgrep -af 'supervise[.]py|peers[.]py'", check=False).stdout


def ends(host: Host, run: str) -> dict[str, Any]:
    until(lambda: record(host, run).get("ended"), f"an end on {host.name}: {record(host, run)}", HALF)
    return record(host, run)


def test_a_worker_that_is_killed_ends_the_other(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    run = launch(orch)
    gpu02.run("pkill -KILL -f '^python3 peers.py'")
    ends(gpu01, run)
    ends(gpu02, run)
    assert row(orch, run, "gpu02")["cause"] == "signal 9 (SIGKILL, killed from outside)"
    found = row(orch, run, "gpu01")
    cause = "peer gpu02 failed: signal 9 (SIGKILL, killed from outside)"
    assert (found["state"], found["cause"], found["inferred"]) == ("failed", cause, False)
    assert not commands(gpu01) + commands(gpu02)


@pytest.mark.parametrize("dead", ["gpu01", "gpu02"])
def test_a_host_that_is_rebooted_ends_the_other(orch: Orch, gpu01: Host, gpu02: Host, dead: str) -> None:
    run = launch(orch)
    gone, stays = (gpu01, gpu02) if dead == "gpu01" else (gpu02, gpu01)
    gone.reboot()
    ends(stays, run)
    assert row(orch, run, stays.name)["cause"].startswith(f"peer {dead} lost (no word for 30 s)")
    found = row(orch, run, dead)
    assert (found["state"], found["cause"]) == ("lost", "host rebooted")
    assert not commands(gpu01) + commands(gpu02)


def test_a_link_that_is_cut_ends_both(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    run = launch(orch)
    with gpu02.unreachable():
        ends(gpu01, run)
        ends(gpu02, run)
        assert not commands(gpu01) + commands(gpu02)
    assert row(orch, run, "gpu01")["cause"].startswith("peer gpu02 lost (no word for 30 s)")
    assert row(orch, run, "gpu02")["cause"].startswith("peer gpu01 lost (no word for 30 s)")


def test_a_link_that_is_cut_for_a_moment_ends_nothing(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    run = launch(orch)
    with gpu02.unreachable():
        beat = record(gpu02, run)["heartbeat"]
        until(lambda: record(gpu02, run)["heartbeat"] > beat, "a heartbeat")
    for host in (gpu01, gpu02):
        beat = record(host, run)["heartbeat"] + 30
        until(lambda: record(host, run)["heartbeat"] > beat, "three heartbeats", HALF)
        assert record(host, run)["state"] == "running"
        host.run(f"touch {ROOT}/ana/mnist/runs/{run}/{host.name}/work/go")
    assert {ends(host, run)["state"] for host in (gpu01, gpu02)} == {"succeeded"}


def test_a_container_that_is_removed_ends_the_other(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    run = launch(orch)
    gpu02.docker("rm", "-f", container(gpu02))
    ends(gpu01, run)
    assert row(orch, run, "gpu01")["cause"].startswith("peer gpu02 lost (no word for 30 s)")
    assert row(orch, run, "gpu02")["cause"] == "container gone: removed"
    assert not commands(gpu01) + commands(gpu02)
    orch("deploy", "--yes", "--hosts", BOTH)


def test_a_container_that_is_missing_is_said_before_anything_starts(
    orch: Orch, gpu01: Host, gpu02: Host
) -> None:
    gpu02.docker("rm", "-f", container(gpu02))
    try:
        done = orch("train", "-d", "--hosts", BOTH, "--", "python3", "peers.py", code=None)
        assert done.returncode != 0
        assert "orch: gpu02: " in done.stderr
        assert not commands(gpu01) + commands(gpu02)
    finally:
        orch("deploy", "--yes", "--hosts", BOTH)


@pytest.mark.parametrize("dead", ["gpu01", "gpu02"])
@pytest.mark.parametrize("how", ["power", "in order"])
def test_a_run_goes_on_after_a_reboot(orch: Orch, gpu01: Host, gpu02: Host, dead: str, how: str) -> None:
    run = launch(orch, "--max-restarts", "2")
    host = gpu01 if dead == "gpu01" else gpu02
    if how == "in order":
        host.stop_docker()
    host.reboot()
    for host in (gpu01, gpu02):
        again = lambda: (record(host, run).get("attempt"), record(host, run).get("state"))  # noqa: E731
        until(lambda: again() == (1, "running"), f"the next attempt on {host.name}", 2 * HALF)
    for host in (gpu01, gpu02):
        found = row(orch, run, host.name)
        assert (found["state"], found["cause"].startswith("restart 1 of 2 after: ")) == ("running", True)
        host.run(f"touch {ROOT}/ana/mnist/runs/{run}/{host.name}/work/go")
    for host in (gpu01, gpu02):
        assert ends(host, run)["state"] == "succeeded"
        folder = f"{ROOT}/ana/mnist/runs/{run}/{host.name}"
        assert host.run(f"cat {folder}/work/result").stdout.startswith("1 hello from")
        assert host.run(f"ls {folder}/launch.json", check=False).returncode != 0
    assert not commands(gpu01) + commands(gpu02)
