"""Sessions on a connection, and on a further one where the host opens no more of them (MaxSessions)."""

from __future__ import annotations

import secrets
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import BinaryIO, Protocol, TypeVar

from orchestrator.errors import HostError, OrchError, Unreachable
from orchestrator.hosts import files, trace
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.begun import Begun
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.limit import Limit
from orchestrator.inventory import Host

T = TypeVar("T")

OPEN_SECONDS = 30.0
"""To open a session and start a command on it, or to open a way through."""

_PAUSES = (0.02, 0.1, 0.3)  # seconds: a session that has just ended may still be counted
_MOST = 4  # connections; orch holds no more sessions of one host at once


class Share(Protocol):
    """A share in an open jump, given back by its end."""

    def close(self) -> None:
        """Give it back."""


class NoRoom(HostError):
    """The host opens no more sessions on this connection; nothing was started."""

    def __init__(self, name: str, host: str) -> None:
        why = "the host opens no more sessions on a connection (MaxSessions in sshd_config)"
        super().__init__(f"{name}: {why}", where=host)


class SessionMachine(Machine):
    """A machine whose commands are sessions of one connection.

    `behind` is the jump that the connection goes through, `again` opens another one like it.
    """

    def __init__(
        self, host: Host, behind: Share | None = None, again: Callable[[], SessionMachine] | None = None
    ) -> None:
        self.host, self._behind = host, behind
        self._again, self._further = again, list[SessionMachine]()
        self._opening = threading.Lock()

    @trace.run
    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        """Run a script through `sh -s`; see Machine.run."""
        return self._where_room(lambda machine: machine._run(script, deadline))

    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        """Start a command with raw stdin and stdout; see Machine.stream."""
        mark = "orch-" + secrets.token_hex(12)
        started = self._where_room(lambda machine: machine._stream(command, terminal, mark))
        return trace.stream(self.host.name, command, Begun(started, mark.encode(), self.host.name))

    def put(self, data: bytes | BinaryIO, path: str, *, mode: int = 0o600) -> None:
        """Write a file whole or not at all; see Machine.put."""
        files.put(self, data, path, mode)

    def get(self, path: str, into: BinaryIO) -> None:
        """Copy a file's bytes; see Machine.get."""
        files.get(self, path, into)

    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        """Open a TCP connection from the host; see Machine.tunnel."""
        return self._forward(address, port, Limit(OPEN_SECONDS))

    def way_to(self, address: str, port: int, limit: Limit) -> Tunnel:
        """Open the way to a host behind this one. Raises Unreachable."""
        try:
            return self._forward(address, port, limit)
        except HostError as error:
            raise Unreachable(error.message, where=error.where) from error

    def close(self) -> None:
        """Close the connection if it is orch's own, and give back the jump that it goes through."""
        for machine in self._further:
            machine.close()
        self._close()
        if self._behind:
            self._behind.close()

    @abstractmethod
    def _forward(self, address: str, port: int, limit: Limit) -> Tunnel:
        """Open a TCP connection from the host. Raises HostError."""

    @abstractmethod
    def _close(self) -> None:
        """Close this connection."""

    @abstractmethod
    def _run(self, script: Script, deadline: float) -> Result:
        """Run a script on this connection. Raises NoRoom."""

    @abstractmethod
    def _stream(self, command: Command | Script, terminal: Terminal | None, mark: str) -> Stream:
        """Start a command that prints `mark` first on this connection. Raises NoRoom."""

    def _where_room(self, do: Callable[[SessionMachine], T]) -> T:
        """Do it on the connection, or on a further one. Most hosts take ten sessions on each."""
        for pause in (*_PAUSES, 0.0):
            for machine in (self, *self._further):
                try:
                    return do(machine)
                except NoRoom as error:
                    refused = error
            time.sleep(pause)
        return do(self._one_more(refused))

    def _one_more(self, refused: NoRoom) -> SessionMachine:
        with self._opening:
            if not self._again or len(self._further) + 1 >= _MOST:
                raise refused
            try:
                machine = self._again()
            except OrchError as error:
                message = f"{refused.message}, nor another connection: {error.message}"
                raise HostError(message, where=self.host.name) from error
            self._further.append(machine)
            return machine

    def _hangs(self, name: str, limit: Limit) -> HostError:
        return HostError(f"{name}: no answer within {limit.seconds:g} s", where=self.host.name)
