"""One connection's worth of a log: templates/logs/follow.sh.j2, seen from this end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render

SILENCE = 20.0
"""Seconds without a byte or a sign of life (one comes every 5) after which a connection counts as lost."""

REMEMBERED = 4096
"""Bytes before a place in a log by which it is known again, whatever its file's inode and size say."""

_LOOK = 0.1
"""Seconds between two looks at what the host says beside the log."""

_PIECE = 1 << 18

_NOISE = 1 << 20
"""Bytes that a login shell may say before the log begins."""


@dataclass(frozen=True)
class Position:
    """A place in a log: the file itself (its inode; empty when unknown), an offset, and bytes before it."""

    inode: str = ""
    offset: int = 0
    before: bytes = b""

    def after(self, data: bytes) -> Position:
        """Return the place behind the next bytes."""
        before = data if len(data) >= REMEMBERED else self.before + data
        return Position(self.inode, self.offset + len(data), before[-REMEMBERED:])


@dataclass(frozen=True)
class Piece:
    """Bytes of the log and their offset. `fresh`: the file was truncated or replaced, these are a new one's.

    A piece without bytes comes first and says only where the log begins, and in which file.
    """

    offset: int
    data: bytes
    fresh: bool = False
    inode: str = ""


@dataclass(frozen=True)
class Start:
    """Where to begin, other than at a position: so many lines, or so many seconds, before now."""

    lines: int | None = None
    since: int | None = None


class Session:
    """Follows a log over one stream. `position` is where the next byte belongs."""

    def __init__(
        self,
        directory: str,
        position: Position,
        start: Start | None,
        live: bool,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.mark = f"orch-log-{secrets.token_hex(12)}"
        self.directory, self.position, self.start, self.live = directory, position, start, live
        self.end: int | None = None  # the size that the log has for good
        self.anew: int | None = None  # following must start again, once it is here
        self._told = told
        self._said = b""  # what of stderr has no line end yet
        self._heard = time.monotonic()
        self._host = ""

    @property
    def complete(self) -> bool:
        """Whether everything was delivered that will ever be there (or was there, when not live)."""
        return self.end is not None and self.position.offset >= self.end

    @property
    def over(self) -> bool:
        """Whether nothing more is to be expected of this session."""
        return self.complete or (self.anew is not None and self.position.offset >= self.anew)

    def open(self, machine: Machine) -> Stream:
        """Start the script on the host. Raises LostConnection: a host that can't start it may be hanging."""
        self._host = machine.host.name
        start = self.start or Start()
        text = render(
            "logs/follow.sh.j2",
            directory=on_host(self.directory).text,
            mark=self.mark,
            inode=self.position.inode,
            offset=self.position.offset - len(self.position.before),
            reached=self.position.offset,
            lines=start.lines,
            since=start.since,
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
        piece, data = self._begin(stream)
        yield piece
        while not self.over:
            data = data or self._next(stream)
            if not self.live and self.end is not None:
                data = data[: self.end - self.position.offset]
            if data:
                piece = Piece(self.position.offset, data)
                self.position = self.position.after(data)
                yield piece
            data = b""

    def _begin(self, stream: Stream) -> tuple[Piece, bytes]:
        """Pass over a login shell's noise; return where the log begins, and its first bytes."""
        mark, begun = f"{self.mark} at ".encode(), b""
        while len(begun) < _NOISE:
            begun += self._more(stream)
            _, found, rest = begun.partition(mark)
            line, whole, data = rest.partition(b"\n")
            if found and whole:
                inode, offset, size = line.decode("ascii", "replace").split(" ")
                if not self.live:
                    self.end = int(size)
                return self._at(stream, inode, int(offset), int(size), data)
        raise LostConnection("the log did not begin", where=self._host)

    def _at(self, stream: Stream, inode: str, offset: int, size: int, data: bytes) -> tuple[Piece, bytes]:
        """Take up the log where it was left, if it is still the same."""
        was, fresh = self.position, False
        if self.start:
            self.position = Position(inode, offset)
        elif was.inode not in ("", inode) or size < was.offset:
            self.position, fresh = Position(inode), True
        else:
            while len(data) < len(was.before):
                data += self._more(stream)
            fresh = not data.startswith(was.before)
            data = data[len(was.before) :]
            self.position = Position(inode, was.offset, was.before)
            if fresh:  # truncated, and by now longer than it was
                self.position, data, self.anew, self.end = Position(inode), b"", 0, None
        return Piece(self.position.offset, b"", fresh, inode), data

    def _next(self, stream: Stream) -> bytes:
        """Return the next bytes of stdout; none when what the host said beside them decides."""
        while (data := self._look(stream)) is None and not self.over:
            pass
        if data == b"" and not self.over:
            raise LostConnection("the connection ended within the log", where=self._host)
        return data or b""

    def _more(self, stream: Stream) -> bytes:
        """Return the next bytes of stdout, of which there must be some."""
        while (data := self._look(stream)) is None:
            pass
        if not data:
            raise LostConnection("the connection ended before the log began", where=self._host)
        return data

    def _look(self, stream: Stream) -> bytes | None:
        """Return what stdout has within a moment, b"" at its end; hear what the host says beside it."""
        data = stream.read(_PIECE, timeout=_LOOK)
        self._listen(stream.read_error())
        if data:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > SILENCE:
            raise LostConnection(f"no sign of life for {SILENCE:.0f} s", where=self._host)
        return data

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
            self.anew = int(rest or 0)
        elif word == "unnoted":
            self._told(f"{self._host}: nothing there says when its log was written, so all of it is shown")
        elif word == "unreadable":
            raise HostError(f"the log can't be read: {rest}", where=self._host)
