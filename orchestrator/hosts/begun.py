"""A stream without what login files print before its command begins."""

from __future__ import annotations

import time

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.answer import no_commands
from orchestrator.hosts.base import Stream

_TOLD = 4096  # bytes of the noise that are kept, for whoever must be told what an account says


class Begun:
    """A stream whose command prints `mark` on stdout first; what comes before it is dropped."""

    def __init__(self, inner: Stream, mark: bytes, host: str) -> None:
        self._inner, self._mark, self._host = inner, mark, host
        self._noise, self._begun = bytearray(), False
        self.read_error, self.write, self.close_stdin = inner.read_error, inner.write, inner.close_stdin
        self.resize, self.status, self.close = inner.resize, inner.status, inner.close

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        """Return the next bytes; see Stream. Raises NotPermitted where the command never began."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._begun:
            left = None if until is None else max(0.0, until - time.monotonic())
            piece = self._inner.read(size, left)
            if piece is None:
                return None
            if not piece:
                raise self._never_began()
            if rest := self._after_mark(piece):
                return rest
        left = None if until is None else max(0.0, until - time.monotonic())
        return self._inner.read(size, left)

    def _after_mark(self, piece: bytes) -> bytes:
        looked = max(0, len(self._noise) - len(self._mark))
        self._noise += piece
        at = self._noise.find(self._mark, looked)
        if at < 0:
            del self._noise[_TOLD : -len(self._mark)]
            return b""
        self._begun = True
        rest = bytes(self._noise[at + len(self._mark) :])
        self._noise.clear()
        return rest

    def _never_began(self) -> HostError:
        status = self._inner.status()
        if status is None:
            return LostConnection("the connection went before the command began", where=self._host)
        return no_commands(self._said(), status, self._host)

    def _said(self) -> str:
        said = bytes(self._noise) + b"\n" + self._inner.read_error()
        lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines()]
        return next((line[:200] for line in lines if line), "")

    def __enter__(self) -> Begun:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
