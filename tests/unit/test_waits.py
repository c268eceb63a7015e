"""A run whose supervisor is away and comes back with its container: what all take it for until then."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Busy
from orchestrator.render import render, source
from orchestrator.run.launch import launch
from orchestrator.run.record import Record
from orchestrator.run.resume import claim, taking
from orchestrator.run.status import judge
from orchestrator.run.stop import stop
from tests.unit.run_place import Place, place
from tests.until import until

__all__ = ["place"]  # a fixture

NAME = f"w{secrets.token_hex(4)}"


def named(number: int) -> str:
    return f"20261130-0214-{NAME}-{number:04x}"


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}) + "\n")


@pytest.fixture
def away(place: Place) -> Path:
    """The folder of a worker that was killed with its supervisor, as by the stop of its container."""
    place.launch("sleep", "60", run=named(1), name=NAME, restarts=1)
    (record,) = place.records()
    os.kill(record.state["pid"], signal.SIGKILL)
    os.killpg(record.state["child"], signal.SIGKILL)
    folder = place.worker(named(1))
    until(lambda: place.records()[0].lock == "free")
    change(folder / "state.json", container="c1")
    return folder


def found(place: Place) -> Record:
    (record,) = place.records(named(1))
    return record


def test_it_is_called_neither_lost_nor_ended(place: Place, away: Path) -> None:
    status = judge(found(place))
    assert (status.state, status.cause, status.live) == ("starting", "waits for its container", True)
    os.utime(away / "state.json", (0, 0))
    os.utime(away / "worker.json", (0, 0))
    assert place.records(named(1), since=5)


def test_nobody_begins_under_its_name(place: Place, away: Path) -> None:
    os.utime(away / "worker.json", (0, 0))
    with pytest.raises(Busy, match=f"run {named(1)} lives already"):
        place.launch("true", run=named(2), name=NAME)


def test_a_stop_ends_it_for_good(place: Place, away: Path) -> None:
    assert stop(place.machine, found(place), by="bob", why="enough").how == "stopped"
    assert not (away / "launch.json").exists()
    status = judge(found(place))
    assert (status.state, status.cause) == ("stopped", "by bob: enough; supervisor gone")
    assert "stop" in (place.folder / "audit.log").read_text()
    assert stop(place.machine, found(place), by="bob").how == "lost"


def test_a_stop_of_one_that_is_given_up_keeps_it_from_coming_back(place: Place, away: Path) -> None:
    change(away / "state.json", uptime=found(place).ground.uptime - 601)
    assert stop(place.machine, found(place), by="bob").how == "lost"
    assert not (away / "launch.json").exists()
    assert judge(found(place)).state == "lost"


def ended(folder: Path) -> None:
    change(folder / "state.json", ended=1.5)


def used_up(folder: Path) -> None:
    change(folder / "state.json", restarts=[{"at": 1.5, "host": "gpu01", "cause": {"kind": "gpu"}}])


def not_after_this(folder: Path) -> None:
    change(folder.parent / "spec.json", retry_on=["gpu"])


def bare(folder: Path) -> None:
    change(folder / "state.json", container="")


def long_ago(folder: Path) -> None:
    up = float(Path("/proc/uptime").read_text().split()[0])
    change(folder / "state.json", uptime=up - 601)


def by_the_clock(folder: Path) -> None:
    change(folder / "state.json", uptime=None, heartbeat=1.5)


def test_its_work_is_not_taken_before_its_time_is_over(place: Place, away: Path) -> None:
    old = found(place)
    order = replace(place.order("true", run=named(2)), takes=taking(old, ""))
    place.runs.append(named(2))
    with pytest.raises(Busy, match="still runs"):
        launch(place.machine, order)
    with pytest.raises(Busy, match="still runs"):
        claim(place.machine, "gpu02", old, order)
    long_ago(away)
    claim(place.machine, "gpu02", old, order)
    assert not (away / "launch.json").exists()


FILES = {"stop.json": "{}", "../continued_by": "run\ngpu02\n"}


def waits(folder: Path, shell: str = "sh", up: str = "") -> bool:
    text = render("run/waits.sh.j2") + f"\nwaits {shlex.quote(str(folder))}\n"
    if up:
        (folder / "uptime").write_text(f"{up} 1.0\n")
        text = text.replace("/proc/uptime", shlex.quote(f"{folder}/uptime"))
    ran = subprocess.run([*shell.split(), "-c", text], capture_output=True, text=True, check=False)
    assert not ran.stderr
    return ran.returncode == 0


@pytest.mark.parametrize("shell", ["dash", "busybox sh", "bash"])
def test_it_waits(away: Path, shell: str) -> None:
    assert waits(away, shell)
    change(away.parent / "spec.json", retry_on=["gpu", "lost"], restarts=2)
    used_up(away)
    assert waits(away, shell)


@pytest.mark.parametrize("how", [ended, used_up, not_after_this, bare, long_ago, by_the_clock])
def test_it_waits_for_nothing(away: Path, how: Any) -> None:
    how(away)
    assert not waits(away)


@pytest.mark.parametrize("name", ["stop.json", "../continued_by"])
def test_it_waits_no_more_when_it_was_stopped_or_gone_on_with(away: Path, name: str) -> None:
    (away / name).write_text(FILES[name])
    assert not waits(away)


def test_it_waits_no_more_without_the_launch(away: Path) -> None:
    (away / "launch.json").unlink()
    assert not waits(away)


def test_its_time_begins_anew_with_a_boot(away: Path) -> None:
    change(away / "state.json", boot_id="other", boot_seen="other", heartbeat=1.5)
    assert waits(away, up="599.5")
    assert not waits(away, up="600.5")
    change(away / "state.json", heartbeat=time.time())
    assert waits(away, up="600.5")  # a host that is itself a container, on a machine that was up before
    change(away / "state.json", heartbeat=time.time() + 9999)
    assert not waits(away, up="600.5")


def test_all_agree_how_long_it_is_waited_for() -> None:
    cluster = source("supervisor/cluster.py") or ""
    seconds = re.findall(r"rejoin\D*(\d+)\.0", cluster)
    assert seconds == re.findall(r"GIVEN_UP = (\d+)\.0", source("supervisor/training.py") or "")
    assert seconds == re.findall(r"exit age \+ 0 >= (\d+)", source("run/waits.sh.j2") or "")
