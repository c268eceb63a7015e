"""A host whose line is cut where a test says, with a count of what came over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.errors import LostConnection
from orchestrator.hosts.base import DEADLINE, Result, Stream, Terminal
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.line import Line
from tests.unit.here import Here


class Cut(Here):
    """Over it `down` bytes come and `up` bytes go until it is cut; None: it is not. `met` hears of both."""

    def __init__(self, inner: Here, *, down: int | None = None, up: int | None = None) -> None:
        self.host, self.inner, self.down, self.up = inner.host, inner, down, up
        self.came = self.went = 0
        self.met: Callable[[], object] = lambda: None

    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        return self.inner.run(script, deadline=deadline)

    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        return CutStream(self, self.inner.stream(command))


class CutStream:
    def __init__(self, machine: Cut, inner: Stream) -> None:
        self.machine, self.inner, self.gone = machine, inner, False

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        left = None if self.machine.down is None else self.machine.down - self.machine.came
        if self.gone or (left is not None and left <= 0):
            raise LostConnection("the connection went", where="here")
        data = self.inner.read(size if left is None else min(size, left), timeout)
        self.machine.came += len(data or b"")
        if data:
            self.machine.met()
        return data

    def write(self, data: bytes) -> None:
        left = len(data) if self.machine.up is None else self.machine.up - self.machine.went
        if left < len(data):
            self.inner.write(data[: max(0, left)])
            self.machine.went += max(0, left)
            self.gone = True
            raise LostConnection("the connection went", where="here")
        self.machine.went += len(data)
        self.inner.write(data)
        self.machine.met()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.inner.close()


def line(*machines: Here, told: list[str] | None = None) -> Line:
    """A line over these machines, each for one connection."""
    left = iter(machines[1:])
    say = (lambda words: None) if told is None else told.append
    return Line(machines[0], lambda: next(left), told=say, sleep=lambda seconds: None)
