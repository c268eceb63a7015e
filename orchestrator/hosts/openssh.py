"""A machine over the ssh program: one connection that is held open, a session of it for each question."""

from __future__ import annotations

import contextlib
import time
import tty
from collections.abc import Callable, Iterator
from typing import Any

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.answer import Answer
from orchestrator.hosts.base import Result, Stream, Terminal
from orchestrator.hosts.command import Command, Script, framed, line_of, on_path
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_identity import Identity
from orchestrator.hosts.openssh_master import Master
from orchestrator.hosts.openssh_mux import Control, Declined, Gone, is_alive
from orchestrator.hosts.openssh_stream import Forward, MuxStream
from orchestrator.hosts.pipes import Ends, pipes, pseudo_terminal, talk
from orchestrator.hosts.sessions import OPEN_SECONDS, NoRoom, SessionMachine, Share
from orchestrator.inventory import Host

_LIFE_SECONDS = 3.0  # for a sign of life of the master


class OpenSshMachine(SessionMachine):
    """A host behind an ssh master that listens at `path`.

    `master` is orch's own and ends with it; None: it is the user's, and stays. `behind` is the jump,
    `again` opens another one.
    """

    def __init__(
        self,
        host: Host,
        path: str,
        identity: Identity,
        master: Master | None = None,
        behind: Share | None = None,
        again: Callable[[], SessionMachine] | None = None,
    ) -> None:
        super().__init__(host, behind, again)
        self.path, self._identity, self._master = path, identity, master
        self._closed = False

    @property
    def client_keys(self) -> tuple[str, ...]:
        """The public key that logged in; with a master of the user's, those that may have."""
        return self._identity.public_lines()

    @property
    def private_key(self) -> Any:
        """The key that logged in, where it is known and a file or an agent has it."""
        return self._identity.private_key()

    @property
    def alive(self) -> bool:
        """Whether the connection stands, as far as is known here."""
        return not self._closed and is_alive(self.path, Limit(_LIFE_SECONDS))

    def _run(self, script: Script, deadline: float) -> Result:
        limit, began = Limit(deadline), time.monotonic()
        frame = framed(on_path(self.host.settings.remote_path, script), watched=script.asks)
        answer, ends, status = Answer(frame), pipes(), None
        with contextlib.closing(ends):
            with contextlib.closing(self._session(b"exec /bin/sh -s", ends, limit, script.name)) as control:
                talk(ends, frame.stdin, answer, limit, held=script.asks)
                if not answer.whole:
                    if limit.over:
                        raise self._hangs(script.name, limit)
                    control.listen(limit.left)
                    status = control.exit_status
        return answer.result(script.name, self.host.name, time.monotonic() - began, status)

    def _session(
        self, line: bytes, ends: Ends, limit: Limit, name: str, terminal: Terminal | None = None
    ) -> Control:
        """Start `line` in a session of its own; closing what it returns ends it."""
        with self._told(name, limit), self._control(limit) as control:
            control.session(line, ends.theirs, terminal, limit)
            if terminal:  # the host has been told its modes; from here on bytes pass as they are
                tty.setraw(ends.theirs[0])
            ends.handed_over()
        return control

    @contextlib.contextmanager
    def _control(self, limit: Limit) -> Iterator[Control]:
        """Open a conversation with the master; an error within the block closes it."""
        if self._closed:
            raise Gone("closed")
        control = Control(self.path, limit)
        try:
            yield control
        except BaseException:
            control.close()
            raise

    @contextlib.contextmanager
    def _told(self, name: str, limit: Limit) -> Iterator[None]:
        """Turn what the master says into our errors."""
        try:
            yield
        except Declined as error:
            if "refused by peer" in str(error):
                raise NoRoom(name, self.host.name) from error
            raise HostError(
                f"{name}: the ssh master opens no session ({error})", where=self.host.name
            ) from error
        except TimeoutError as error:
            raise self._hangs(name, limit) from error
        except Gone as error:
            raise LostConnection(f"{name}: the connection went", where=self.host.name) from error

    def _stream(self, command: Command | Script, terminal: Terminal | None, mark: str) -> Stream:
        line = line_of(command, self.host.settings.remote_path, host=self.host.name, mark=mark)
        name = command.name if isinstance(command, Script) else "stream"
        ends = pseudo_terminal(terminal) if terminal else pipes()
        try:
            limit, encoded = Limit(OPEN_SECONDS), line.encode("utf-8", "surrogateescape")
            pid = self._pid(name, limit) if terminal else 0
            control = self._session(encoded, ends, limit, name, terminal)
        except BaseException:
            ends.close()
            raise
        return MuxStream(ends, control, self.host.name, name, lambda: self.alive, pid)

    def _pid(self, name: str, limit: Limit) -> int:
        with self._told(name, limit), self._control(limit) as control, contextlib.closing(control):
            return control.pid(limit)

    def _forward(self, address: str, port: int, limit: Limit) -> Forward:
        forward = Forward()
        try:
            with self._control(limit) as control:
                control.forward(address, port, forward.theirs, limit)
                forward.handed_over(control)
            return forward
        except BaseException as error:
            forward.close()
            raise self._no_way(error, address, port, limit) from error

    def _no_way(self, error: BaseException, address: str, port: int, limit: Limit) -> BaseException:
        if isinstance(error, Declined):
            why = f"nothing answers at {address}:{port} there"
            if self._master is None:  # only its own log would tell
                why += ", or its sshd forbids forwarding (AllowTcpForwarding)"
            elif self._master.said().forbids_forwarding:
                why = "its sshd forbids forwarding (AllowTcpForwarding)"
            return HostError(why, where=self.host.name)
        if isinstance(error, TimeoutError):
            said = f"no answer from {address}:{port} there within {limit.seconds:g} s"
            return HostError(said, where=self.host.name)
        if isinstance(error, Gone):
            return LostConnection(f"no way to {address}:{port}", where=self.host.name)
        return error

    def _close(self) -> None:
        self._closed = True
        self._identity.close()
        with contextlib.suppress(OSError):
            if self._master:
                self._master.close()
