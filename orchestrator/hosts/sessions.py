"""Sessions on a connection, and on a further one where the host opens no more of them (MaxSessions)."""

from __future__ import annotations

import secrets
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from orchestrator.errors import HostError, OrchError
from orchestrator.hosts import trace
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal
from orchestrator.hosts.begun import Begun
from orchestrator.hosts.command import Command, Script

T = TypeVar("T")

_PAUSES = (0.02, 0.1, 0.3)  # seconds: a session that has just ended may still be counted
_MOST = 4  # connections; orch holds no more sessions of one host at once


class NoRoom(HostError):
    """The host opens no more sessions on this connection; nothing was started."""

    def __init__(self, name: str, host: str) -> None:
        why = "the host opens no more sessions on a connection (MaxSessions in sshd_config)"
        super().__init__(f"{name}: {why}", where=host)


class SessionMachine(Machine):
    """A machine whose commands are sessions of one connection. `again` opens another one like it."""

    def __init__(self, again: Callable[[], SessionMachine] | None) -> None:
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

    def _close_further(self) -> None:
        for machine in self._further:
            machine.close()
