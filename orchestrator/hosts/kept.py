"""Connections that stay open from one question to the next, for verbs that repeat one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from orchestrator.errors import OrchError
from orchestrator.hosts import trace
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.command import Command, Script
from orchestrator.inventory import Host


class Kept:
    """Hands out each host's one connection; one on which something failed is replaced at the next call."""

    def __init__(self, connect: Callable[[Host], Machine]) -> None:
        self._connect = connect
        self._machines: dict[str, Machine] = {}

    def connect(self, host: Host) -> Machine:
        """Return the open connection to a host, else a new one. Closing it keeps it open."""
        machine = self._machines.get(host.name)
        if machine is None:
            with trace.connecting(host.name):
                machine = self._machines[host.name] = self._connect(host)
        return _Lent(machine, self._drop)

    def _drop(self, machine: Machine) -> None:
        self._machines.pop(machine.host.name, None)
        machine.close()

    def close(self) -> None:
        """Close all connections."""
        for machine in list(self._machines.values()):
            self._drop(machine)


class _Lent(Machine):
    """A machine that somebody else closes."""

    def __init__(self, machine: Machine, drop: Callable[[Machine], None]) -> None:
        self.host = machine.host
        self._machine, self._drop = machine, drop

    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        try:
            return self._machine.run(script, deadline=deadline)
        except OrchError:
            self._drop(self._machine)
            raise

    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        return self._machine.stream(command, terminal=terminal)

    def put(self, data: bytes | BinaryIO, path: str, *, mode: int = 0o600) -> None:
        self._machine.put(data, path, mode=mode)

    def get(self, path: str, into: BinaryIO) -> None:
        self._machine.get(path, into)

    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        return self._machine.tunnel(port, address)

    @property
    def client_keys(self) -> tuple[str, ...]:
        return self._machine.client_keys

    @property
    def private_key(self) -> Any:
        return self._machine.private_key

    def close(self) -> None:
        pass
