"""A command on a paramiko channel: raw bytes, both streams drained together, every wait bounded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import paramiko

from orchestrator.errors import LostConnection
from orchestrator.hosts.base import DEADLINE
from orchestrator.hosts.platform import ready

PIECE = 1 << 16
ERROR_KEPT = 1 << 16
"""Bytes of stderr that a stream keeps for whoever asks."""


def wait(channel: Any, seconds: float | None) -> bool:
    """Wait until a channel has data or has ended; False when the seconds passed."""
    return bool(ready({channel.fileno()}, seconds=seconds))


def ended(channel: Any) -> bool:
    """Whether a channel will bring nothing more than what has already arrived."""
    return bool(channel.eof_received or channel.closed)


class ChannelStream:
    """A `Stream` on a channel whose command has been started."""

    def __init__(self, channel: Any, host: str) -> None:
        self._channel, self._host = channel, host
        self._error, self._polled = bytearray(), False

    def read(self, size: int = PIECE, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of stdout, b"" at the end, None after `timeout` seconds without any."""
        until = None if timeout is None else time.monotonic() + timeout
        self._polled = self._polled or until is not None
        while True:
            over = ended(self._channel)  # asked before the data: what came before the end is not missed
            crowded = self._drain_error()
            if self._channel.recv_ready():
                return self._taken(self._channel.recv, size)
            if crowded:
                return None
            if over:
                return self._at_end()
            left = None if until is None else until - time.monotonic()
            if (left is not None and left <= 0) or not wait(self._channel, left):
                return None

    def _at_end(self) -> bytes:
        if not self._channel.eof_received and self._channel.exit_status < 0:
            raise LostConnection("the connection went", where=self._host)
        return b""

    def _taken(self, take: Callable[[int], bytes], size: int) -> bytes:
        """Take bytes off the channel, which tells the host that there is room again, if it is still there."""
        try:
            return bytes(take(size))
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise LostConnection("the connection went", where=self._host) from error

    def _drain_error(self) -> bool:
        """Take stderr off the channel; for who polls, no more than can be kept. True: more may wait."""
        while self._channel.recv_stderr_ready():
            if self._polled and len(self._error) >= ERROR_KEPT // 2:
                return True
            self._error += self._taken(self._channel.recv_stderr, ERROR_KEPT // 2)
            del self._error[:-ERROR_KEPT]
        return False

    def read_error(self) -> bytes:
        """Return what stderr has held since the last call (at most its last 64 KiB)."""
        self._drain_error()
        said = bytes(self._error)
        self._error.clear()
        return said

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises LostConnection when nobody reads it any more."""
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise LostConnection("the connection, or the command on it, went", where=self._host) from error

    def close_stdin(self) -> None:
        """Send the end of stdin."""
        if not self._channel.closed:
            self._channel.shutdown_write()

    def resize(self, columns: int, rows: int) -> None:
        """Tell the remote terminal its new size."""
        if not ended(self._channel):
            self._channel.resize_pty(columns, rows)

    def status(self) -> int | None:
        """Return the exit status once stdout has ended; None where the host never told it."""
        if ended(self._channel):  # the status may come a moment after the end of stdout
            self._channel.status_event.wait(DEADLINE)
        status = int(self._channel.exit_status)
        return None if status < 0 else status

    def close(self) -> None:
        """Close the channel. Never raises."""
        try:
            self._channel.close()
        except (OSError, EOFError, paramiko.SSHException):
            return

    def __enter__(self) -> ChannelStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
