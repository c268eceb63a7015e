"""Hosts that are this machine, each with a project's folder of its own, for the checks on several."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.hosts.base import Machine
from orchestrator.hosts.local import LocalMachine
from orchestrator.inventory import Host, Settings
from orchestrator.run.checks import Look, look
from orchestrator.run.cluster import Cluster, cluster_of
from orchestrator.run.launch import Order
from orchestrator.run.spec import RunSpec
from tests.unit.here import record, venv_in

RUN = "20261130-0214-meeting-7f3a"


class Meeting:
    """Two hosts or more, their environments deployed, and what they answer."""

    def __init__(self, root: Path, *settings: dict[str, Any]) -> None:
        self.hosts = [self._host(root, number, own) for number, own in enumerate(settings)]
        self.machines: dict[str, Machine] = {host.name: LocalMachine(host) for host in self.hosts}
        self.cluster: Cluster = cluster_of(self.hosts)

    def _host(self, root: Path, number: int, own: dict[str, Any]) -> Host:
        name = f"gpu0{number + 1}"
        folder = root / name / "it's"
        (folder / "bundles" / "b1").mkdir(parents=True)
        record(replace(venv_in(folder), env=own.pop("env", "e1")))
        (folder / "enter").write_text(own.pop("enter", 'cd "$1" && shift && exec "$@"\n'))
        (folder / "whole").touch()
        settings = Settings(**{"root": str(root), "engine": "venv", **own})
        return Host(name, name, connection="local", settings=settings)

    def folder(self, rank: int) -> Path:
        return Path(self.hosts[rank].settings.root) / self.hosts[rank].name / "it's"

    def order(self, rank: int, bundle: str = "b1") -> Order:
        names = tuple(host.name for host in self.hosts)
        return Order(RunSpec(RUN, ("true",), names, "ana", "p", bundle), str(self.folder(rank)))

    def look(self, rank: int, **more: Any) -> Look:
        member, machine = self.cluster.members[rank], self.machines[self.hosts[rank].name]
        return look(machine, self.order(rank, **more), member, self.cluster)

    def looks(self) -> list[Look]:
        return [self.look(rank) for rank in range(len(self.hosts))]


@contextmanager
def listening(port: int = 0, family: int = socket.AF_INET, address: str = "127.0.0.1") -> Iterator[int]:
    """Somebody who listens on a port, as TensorFlow does: SO_REUSEPORT lets others in silently."""
    with socket.socket(family) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind((address, port))
        server.listen()
        yield server.getsockname()[1]


def free_span(count: int) -> tuple[int, ...]:
    """Ports in a row on which nobody listens now."""
    for first in range(34_000 + os.getpid() % 5000, 60_000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as server:
                    server.bind(("", port))
        except OSError:
            continue
        return tuple(range(first, first + count))
    raise AssertionError("no free ports")
