"""What comes back from a framed script: found between its marks, in linear time and memory."""

from __future__ import annotations

from orchestrator.errors import HostError, LostConnection, NotPermitted
from orchestrator.hosts.base import Result
from orchestrator.hosts.command import Frame


class _Side:
    """One stream of the answer: noise, begin mark, payload, end mark, status."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._data = bytearray()
        self._begin = self._end = -1
        self.status: int | None = None

    def feed(self, piece: bytes) -> None:
        if self.status is not None:
            return
        looked = len(self._data)
        self._data += piece
        if self._begin < 0:
            looked = self._find_begin(looked)
        if self._begin >= 0:
            self._find_end(looked)

    def _find_begin(self, looked: int) -> int:
        mark = self._frame.begin
        at = self._data.find(mark, max(0, looked - len(mark)))
        if at >= 0:
            self._begin = at + len(mark)
        return max(self._begin, 0)

    def _find_end(self, looked: int) -> None:
        mark = self._frame.end
        if self._end < 0:
            self._end = self._data.find(mark, max(self._begin, looked - len(mark)))
        if self._end < 0:
            return
        number, newline, _ = bytes(self._data[self._end + len(mark) :]).partition(b"\n")
        if newline and number.isdigit():
            self.status = int(number)

    @property
    def begun(self) -> bool:
        return self._begin >= 0

    @property
    def payload(self) -> bytes:
        if not self.begun:
            return b""
        return bytes(memoryview(self._data)[self._begin : self._end if self.status is not None else None])

    @property
    def first_line(self) -> str:
        for line in bytes(self._data[:4096]).decode("utf-8", "replace").splitlines():
            if line.strip():
                return line.strip()[:200]
        return ""


class Answer:
    """Collects the two streams of a framed script until both end marks are there."""

    def __init__(self, frame: Frame) -> None:
        self._out, self._err = _Side(frame), _Side(frame)

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of stdout."""
        self._out.feed(piece)

    def feed_error(self, piece: bytes) -> None:
        """Take the next bytes of stderr."""
        self._err.feed(piece)

    @property
    def whole(self) -> bool:
        """Whether nothing more is to come that belongs to the answer."""
        return self._out.status is not None and self._err.status is not None

    def result(self, name: str, host: str, seconds: float, status: int | None = None) -> Result:
        """Return the answer once its streams have ended; `status` is how the shell ended, if that was told.

        Raises LostConnection where the end mark is missing, and NotPermitted where the account's shell
        never ran the script: nologin, a forced command, an `exit` in .bashrc.
        """
        if self._out.status is not None:
            return Result(self._out.status, self._out.payload, self._err.payload, seconds)
        if self._out.begun:
            raise LostConnection(f"{name}: the connection went before the answer was whole", where=host)
        said = self._out.first_line or self._err.first_line
        if not said and status is None:
            raise LostConnection(f"{name}: the connection went before the host said anything", where=host)
        if "yntax error" in said:  # a fault in a template, told as sh tells it
            raise HostError(f"{name}: {said}", where=host)
        raise no_commands(said, status, host)


def no_commands(said: str, status: int | None, host: str) -> NotPermitted:
    """Return the error for an account whose shell ended without running what it was given."""
    how = f"; it said: {said}" if said else f": its shell ended with status {status} and said nothing"
    return NotPermitted(
        f"the account runs no commands{how}",
        where=host,
        hint="orch needs an account whose login shell runs /bin/sh "
        "(not nologin, no forced command, no `exit` in its login files)",
    )
