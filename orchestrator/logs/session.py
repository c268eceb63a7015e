"""One connection's worth of a log: templates/logs/follow.sh.j2, seen from this end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render

SILENCE = 35.0
"""Seconds without a byte or a sign of life (one comes every 10) after which a connection counts as lost."""

_LOOK = 0.1
"""Seconds between two looks at what the host says beside the log."""

_PIECE = 1 << 18

_NOISE = 1 << 20
"""Bytes that a login shell may say before the log begins."""


@dataclass(frozen=True)
class Position:
    """A place in a log: the file itself (its inode; empty when unknown) and a byte offset."""

    inode: str = ""
    offset: int = 0


@dataclass(frozen=True)
class Piece:
    """Bytes of the log and their offset. `fresh`: the file was truncated or replaced, these are a new one's.

    A piece without bytes comes first and says only where the log begins.
    """

    offset: int
    data: bytes
    fresh: bool = False


class Session:
    """Follows a log over one stream. `position` is where the next byte belongs."""

    def __init__(self, directory: str, position: Position, lines: int | None, live: bool) -> None:
        self.mark = f"orch-log-{secrets.token_hex(12)}"
        self.directory, self.position, self.lines, self.live = directory, position, lines, live
        self.end: int | None = None  # the size that the log has for good
        self.anew = False  # the host says that following must start again
        self._said = b""  # what of stderr has no line end yet
        self._heard = time.monotonic()
        self._host = ""

    @property
    def complete(self) -> bool:
        """Whether everything was delivered that will ever be there (or was there, when not live)."""
        return self.end is not None and self.position.offset >= self.end

    def open(self, machine: Machine) -> Stream:
        """Start the script on the host. Raises LostConnection: a host that can't start it may be hanging."""
        self._host = machine.host.name
        text = render(
            "logs/follow.sh.j2",
            directory=on_host(self.directory).text,
            mark=self.mark,
            inode=self.position.inode,
            offset=self.position.offset,
            lines=self.lines,
        )
        try:
            return machine.stream(Script("follow", text))
        except HostError as error:
            raise LostConnection(error.message, where=self._host) from error

    def pieces(self, stream: Stream) -> Iterator[Piece]:
        """Yield what comes, until it is complete or must start anew.

        Raises LostConnection when the stream ends too early or falls silent, HostError when the log can't
        be read.
        """
        fresh, data = self._begin(stream)
        yield Piece(self.position.offset, b"", fresh)
        while True:
            if not self.live and self.end is not None:
                data = data[: self.end - self.position.offset]
            if data:
                piece = Piece(self.position.offset, data)
                self.position = Position(self.position.inode, piece.offset + len(data))
                yield piece
            if self.complete or self.anew:
                return
            data = self._next(stream)

    def _begin(self, stream: Stream) -> tuple[bool, bytes]:
        """Pass over a login shell's noise; return whether it is a new file, and its first bytes."""
        mark, begun = f"{self.mark} at ".encode(), b""
        while len(begun) < _NOISE:
            begun += self._next(stream)
            _, found, rest = begun.partition(mark)
            line, whole, data = rest.partition(b"\n")
            if found and whole:
                inode, offset, size = line.decode("ascii", "replace").split(" ")
                fresh = self.lines is None and int(offset) != self.position.offset
                self.position = Position(inode, int(offset))
                if not self.live:
                    self.end = int(size)
                return fresh, data
            if self.anew:
                break
        raise LostConnection("the log did not begin", where=self._host)

    def _next(self, stream: Stream) -> bytes:
        """Return the next bytes of stdout; none when what the host said beside them decides."""
        while True:
            data = stream.read(_PIECE, timeout=_LOOK)
            self._listen(stream.read_error())
            if data:
                self._heard = time.monotonic()
                return data
            if data is not None and not self.anew:
                raise LostConnection("the connection ended within the log", where=self._host)
            if data is not None or self.complete:
                return b""
            if time.monotonic() - self._heard > SILENCE:
                raise LostConnection(f"no sign of life for {SILENCE:.0f} s", where=self._host)

    def _listen(self, said: bytes) -> None:
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            _, found, words = line.decode("utf-8", "replace").partition(f"{self.mark} ")
            if found:
                self._heard = time.monotonic()
                self._heed(*words.partition(" ")[::2])

    def _heed(self, word: str, rest: str) -> None:
        if word == "ended" and self.live:
            self.end = int(rest)
        elif word in ("replaced", "stopped"):
            self.anew = True
        elif word == "unreadable":
            raise HostError(f"the log can't be read: {rest}", where=self._host)
