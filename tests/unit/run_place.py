"""A project's folder on a host that is this machine, with a venv-like environment, to launch runs in."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.facts.question import ask
from orchestrator.hosts.local import LocalMachine
from orchestrator.inventory import Host, Settings
from orchestrator.run.launch import Launched, Order, launch
from orchestrator.run.record import RUNS, Record, query
from orchestrator.run.spec import RunSpec
from orchestrator.run.stop import stop
from tests.unit.here import record, venv_in

GPUS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
# Of this process alone: a stop sweeps the whole machine for its run, and tests run side by side.
RUN = f"20261130-0214-{secrets.token_hex(4)}-000"
IDLE = "0, GPU-aaaa, 3\n1, GPU-bbbb, 3\n2, GPU-cccc, 3\n"


class Place:
    """A host's project folder with a small bundle in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "ana" / "my project's"
        self.host = Host("gpu01", "gpu01", connection="local", settings=Settings(root=str(root)))
        self.machine = LocalMachine(self.host)
        bundle = self.folder / "bundles" / "b1"
        (bundle / "src").mkdir(parents=True)
        (bundle / "data.txt").write_text("kept\n")
        os.chmod(bundle / "data.txt", 0o444)
        self.runs: list[str] = []

    def deploy(self, *, gpus: tuple[str, ...] = (), path: str = os.environ["PATH"]) -> None:
        environment = venv_in(self.folder, gpus=gpus)
        self.here = record(environment)
        (self.folder / "enter").write_text(f'PATH=\'{path}\'; export PATH\ncd "$1" && shift && exec "$@"\n')
        (self.folder / "whole").touch()

    def order(self, *argv: str, run: str = RUN + "1", **fields: Any) -> Order:
        spec = RunSpec(run, argv, ("gpu01",), "ana maria", "p", "b1", by="ana@laptop")
        mine = {k: fields.pop(k) for k in list(fields) if k in ("env", "share", "watch")}
        return Order(replace(spec, **fields), str(self.folder), **mine)

    def launch(self, *argv: str, **fields: Any) -> Launched:
        order = self.order(*argv, **fields)
        self.runs.append(order.spec.run)
        return launch(self.machine, order)

    def worker(self, run: str = RUN + "1") -> Path:
        return self.folder / "runs" / run / "gpu01"

    def records(self, run: str = "*", since: int | None = None) -> tuple[Record, ...]:
        values = query(str(self.root), run=run, since=since, tail=1000, engine="")
        return ask(self.machine, RUNS, values=values).of(RUNS)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "root")
    place.deploy()
    yield place
    for found in place.records():
        stop(place.machine, found, by="test", grace=0)
    place.machine.close()


def tool(place: Place, name: str, text: str) -> None:
    """Put a program in front of the others of the environment."""
    tools = place.root / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / name).write_text(f"#!/bin/sh\n{text}\n")
    (tools / name).chmod(0o755)
    place.deploy(path=f"{tools}:{os.environ['PATH']}")
