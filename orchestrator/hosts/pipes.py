"""A running command's stdin, stdout and stderr as pipes or as a pseudo-terminal, every wait bounded."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import time
from dataclasses import dataclass

from orchestrator.errors import LostConnection
from orchestrator.hosts.answer import Answer
from orchestrator.hosts.base import Terminal
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.platform import ready

PIECE = 1 << 16
_ERROR_KEPT = 1 << 16  # bytes of stderr that a stream keeps


@dataclass
class Ends:
    """Our ends of a command's streams, and `theirs` (stdin, stdout, stderr) until it has them.

    With a terminal stdin and stdout are one descriptor, and there is no stderr (-1).
    """

    stdin: int
    out: int
    err: int
    theirs: tuple[int, int, int]

    def handed_over(self) -> None:
        """Close the command's ends: it has its own copies."""
        for number in set(self.theirs):
            os.close(number)
        self.theirs = (-1, -1, -1)

    def close_stdin(self) -> None:
        """Close our end of stdin."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        """Close all that is open."""
        for number in {self.stdin, self.out, self.err, *self.theirs} - {-1}:
            with contextlib.suppress(OSError):
                os.close(number)
        self.stdin = self.out = self.err = -1
        self.theirs = (-1, -1, -1)


def pipes() -> Ends:
    """Return three pipes."""
    (their_in, stdin), (out, their_out), (err, their_err) = os.pipe(), os.pipe(), os.pipe()
    return Ends(stdin, out, err, (their_in, their_out, their_err))


def pseudo_terminal(terminal: Terminal) -> Ends:
    """Return both sides of a pseudo-terminal of this size."""
    ours, theirs = os.openpty()
    set_size(ours, terminal.columns, terminal.rows)
    return Ends(ours, ours, -1, (theirs, theirs, theirs))


def set_size(number: int, columns: int, rows: int) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(number, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def talk(ends: Ends, script: bytes, answer: Answer, limit: Limit, *, held: bool = False) -> None:
    """Send the script and take both streams, until the answer is whole, they end, or the time is over.

    `held`: stdin is not ended when the script is sent.
    """
    feeds = {ends.out: answer.feed, ends.err: answer.feed_error}
    rest, stdin = memoryview(script), {ends.stdin}
    os.set_blocking(ends.stdin, False)
    while feeds and not answer.whole and not limit.over:
        for number in ready(feeds, stdin, limit.left):
            if number in stdin:
                rest = _sent(number, rest)
                if not rest:
                    stdin.clear()
                    if not held:
                        ends.close_stdin()
            elif piece := os.read(number, PIECE):
                feeds[number](piece)
            else:
                del feeds[number]


def _sent(number: int, data: memoryview) -> memoryview:
    """Write what fits and return the rest; nothing is left when nobody reads it any more."""
    try:
        return data[os.write(number, data) :]
    except BlockingIOError:
        return data
    except OSError:
        return memoryview(b"")


class PipeStream:
    """What all streams over pipes or a pseudo-terminal have in common."""

    def __init__(self, ends: Ends, host: str) -> None:
        self._ends, self._host, self._error = ends, host, bytearray()
        self._over = self._polled = False

    def read(self, size: int = PIECE, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of stdout, b"" at the end, None after `timeout` seconds without any."""
        until = None if timeout is None else time.monotonic() + timeout
        self._polled = self._polled or until is not None
        while not self._over:
            left = None if until is None else max(0.0, until - time.monotonic())
            crowded = self._crowded
            ready = self._ready(0 if crowded else left, error=not crowded)
            if self._ends.out in ready:
                piece = self._take(size)
                self._over = not piece
                if piece:
                    return piece
            elif not ready:
                return None
        return b""

    @property
    def _crowded(self) -> bool:
        """Whether stderr must be asked for before more of it is taken: who polls it loses none."""
        return self._polled and len(self._error) >= _ERROR_KEPT // 2

    def _ready(self, seconds: float | None, *, error: bool = True) -> set[int]:
        """Return which of stdout and stderr have something within the time; stderr is taken at once."""
        sides = {self._ends.out, self._ends.err if error else -1} - {-1}
        found = ready(sides, seconds=seconds)
        if self._ends.err in found:
            self._take_error()
        return found

    def _take(self, size: int) -> bytes:
        try:
            return os.read(self._ends.out, size)
        except OSError:  # EIO: the last one who held the terminal has closed it
            return b""

    def _take_error(self) -> None:
        piece = os.read(self._ends.err, _ERROR_KEPT // 2)
        self._error += piece
        del self._error[:-_ERROR_KEPT]
        if not piece:
            os.close(self._ends.err)
            self._ends.err = -1

    def read_error(self) -> bytes:
        """Return what stderr has held since the last call (at most its last 64 KiB)."""
        while self._ends.err >= 0 and not self._crowded and self._ends.err in self._ready(0):
            pass
        said = bytes(self._error)
        self._error.clear()
        return said

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises LostConnection when nobody reads it any more."""
        view = memoryview(data)
        try:
            while view:
                self._wait_for_room()
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self._ends.stdin, view) :]
        except OSError as error:
            raise LostConnection("the command has ended", where=self._host) from error

    def _wait_for_room(self) -> None:
        """Return when something can be written; writing itself may wait, too."""

    def close_stdin(self) -> None:
        """Send the end of stdin."""
        if self._ends.stdin == self._ends.out:
            self.write(b"\x04")  # ^D is the end of file of a terminal
        else:
            self._ends.close_stdin()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        if self._ends.err < 0 <= self._ends.out == self._ends.stdin:
            set_size(self._ends.out, columns, rows)
