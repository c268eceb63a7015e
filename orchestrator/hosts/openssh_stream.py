"""A `Stream`, and a `Tunnel`, on an ssh master."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.base import DEADLINE
from orchestrator.hosts.openssh_mux import Control
from orchestrator.hosts.pipes import Ends, PipeStream
from orchestrator.hosts.platform import ready

_QUIET = 15.0  # seconds of silence after which the master is asked for a sign of life
_MISSED = 3  # signs of life that fail to come before it counts as gone


class MuxStream(PipeStream):
    """A stream whose command runs in a session of its own.

    `alive` tells whether the master gives a sign of life; `master` is its process, 0 without a terminal.
    """

    def __init__(
        self, ends: Ends, control: Control, host: str, name: str, alive: Callable[[], bool], master: int = 0
    ) -> None:
        super().__init__(ends, host)
        self._name = name
        self._control, self._alive, self._master = control, alive, master
        self._heard, self._missed = time.monotonic(), 0
        os.set_blocking(ends.stdin, False)  # a master that stands still reads nothing

    def _ready(self, seconds: float | None, *, error: bool = True) -> set[int]:
        """Wait as pipes do, and at times of silence see whether the master, which may stand still, lives."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _QUIET if until is None else min(_QUIET, max(0.0, until - time.monotonic()))
            ready = super()._ready(left, error=error)
            if self._master and self._ends.out in ready:
                self._check_terminal()
            if ready:
                self._heard, self._missed = time.monotonic(), 0
            else:
                self._look_after()
            if ready or (until is not None and time.monotonic() >= until):
                return ready

    def _check_terminal(self) -> None:
        """Raise where the host gave no terminal: that is told before anything else."""
        self._control.listen(0)
        if self._control.no_terminal:
            raise HostError(
                f"{self._name}: the host gives no terminal (PermitTTY in sshd_config, no-pty for the key)",
                where=self._host,
            )

    def _look_after(self) -> None:
        if time.monotonic() - self._heard < _QUIET:
            return
        self._missed = 0 if self._alive() else self._missed + 1
        self._heard = time.monotonic()
        if self._missed >= _MISSED:
            raise LostConnection("the connection went: the ssh program stands still", where=self._host)

    def _take(self, size: int) -> bytes:
        piece = super()._take(size)
        if not piece and self._end_status() is None and not self._alive():
            raise LostConnection("the connection went", where=self._host)
        return piece

    def _end_status(self) -> int | None:
        self._control.listen(DEADLINE)
        return self._control.exit_status

    def _wait_for_room(self) -> None:
        while not ready((), {self._ends.stdin}, _QUIET):
            self._look_after()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal here; the master, told by a signal, passes it on."""
        super().resize(columns, rows)
        with contextlib.suppress(OSError):
            if self._master:
                os.kill(self._master, signal.SIGWINCH)

    def status(self) -> int | None:
        """Return the exit status once stdout has ended; None where the host never told it."""
        return self._end_status() if self._over else None

    def close(self) -> None:
        """End the session; the remote command sees its stdin closed."""
        self._control.close()
        self._ends.close()

    def __enter__(self) -> MuxStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Forward:
    """A way to a port behind a master, as a socket: one pair for each direction, so that each can end."""

    def __init__(self) -> None:
        self._in, their_out = socket.socketpair()
        self._out, their_in = socket.socketpair()
        self._theirs = (their_in, their_out)
        self.control: Control | None = None
        self._closed = False  # paramiko looks at it, as sockets have it

    @property
    def theirs(self) -> tuple[int, int]:
        """Stdin and stdout for the master."""
        return self._theirs[0].fileno(), self._theirs[1].fileno()

    def handed_over(self, control: Control) -> None:
        """Close the master's ends: it has its own copies. `control` holds the forward open."""
        self.control = control
        for end in self._theirs:
            end.close()

    def recv(self, size: int) -> bytes:
        """Return the next bytes, b"" at the end."""
        return self._in.recv(size)

    def send(self, data: bytes) -> int:
        """Send what fits."""
        return self._out.send(data)

    def settimeout(self, seconds: float | None) -> None:
        """Bound what comes next."""
        self._in.settimeout(seconds)
        self._out.settimeout(seconds)

    def close(self) -> None:
        """End it."""
        self._closed = True
        for end in (self._in, self._out, *self._theirs):
            end.close()
        if self.control:
            self.control.close()
