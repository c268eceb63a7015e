"""What is sent to hosts and how it ended, for whoever listens: -v, -vv, a log file. Mostly nobody does.

A machine calls `sending` before and `ended` after each command, or has `run` and `stream` do it:

    @trace.run                                       # on its method `run`
    return trace.stream(self.host.name, command, stream)    # at the end of its method `stream`
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.masking import masked

if TYPE_CHECKING:
    from orchestrator.hosts.base import Result, Stream

Run = TypeVar("Run", bound="Callable[..., Result]")

_NAME = 100  # characters of a command that stand for it in a line


class Listener(Protocol):
    """Takes what happens, from the thread in which it happens; secrets are masked already."""

    def sending(self, host: str, name: str, text: str) -> None:
        """A command is about to be sent."""

    def ended(self, host: str, name: str, seconds: float, status: int | None) -> None:
        """A command has ended; None: nobody knows how."""


_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Tell a listener from now on; returns what ends that."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener) if listener in _listeners else None


def sending(host: str, name: str, text: str) -> None:
    """Tell that a command is about to be sent."""
    for listener in tuple(_listeners):
        listener.sending(host, masked(name), masked(text))


def ended(host: str, name: str, seconds: float, status: int | None) -> None:
    """Tell that a command has ended after so many seconds; None: without a status."""
    for listener in tuple(_listeners):
        listener.ended(host, masked(name), seconds, status)


def name_of(asked: Command | Script) -> str:
    """Return what a command is called in one line."""
    name = asked.name if isinstance(asked, Script) else " ".join(str(asked).split())
    return name if len(name) <= _NAME else name[: _NAME - 3] + "..."


def _sending(host: str, asked: Command | Script) -> None:
    sending(host, name_of(asked), asked.text if isinstance(asked, Script) else asked.shell())


def run(method: Run) -> Run:
    """Decorate a machine's `run`, so that it is told."""

    @functools.wraps(method)
    def told(self: Any, script: Script, **options: Any) -> Result:
        if not _listeners:
            return method(self, script, **options)
        _sending(self.host.name, script)
        began, status = time.monotonic(), None
        try:
            result = method(self, script, **options)
            status = result.status
            return result
        finally:
            ended(self.host.name, name_of(script), time.monotonic() - began, status)

    return told  # type: ignore[return-value]


@contextlib.contextmanager
def connecting(host: str) -> Iterator[None]:
    """Tell how long it takes to reach a host; without a status when it isn't reached."""
    began, status = time.monotonic(), None
    try:
        yield
        status = 0
    finally:
        ended(host, "connect", time.monotonic() - began, status)


def stream(host: str, asked: Command | Script, started: Stream) -> Stream:
    """Return a stream whose end is told; the same one where nobody listens."""
    if not _listeners:
        return started
    _sending(host, asked)
    return _Watched(host, name_of(asked), started)


class _Watched:
    """A stream that tells when it is closed."""

    def __init__(self, host: str, name: str, inner: Stream) -> None:
        self._host, self._name, self._inner = host, name, inner
        self._began, self._status, self._closed = time.monotonic(), None, False
        self.read, self.read_error, self.write = inner.read, inner.read_error, inner.write
        self.close_stdin, self.resize = inner.close_stdin, inner.resize

    _status: int | None

    def status(self) -> int | None:
        self._status = self._inner.status()
        return self._status

    def close(self) -> None:
        self._inner.close()
        if not self._closed:
            self._closed = True
            ended(self._host, self._name, time.monotonic() - self._began, self._status)

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
