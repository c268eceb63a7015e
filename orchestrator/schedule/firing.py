"""What happens when cron calls an entry: one at a time, and all output goes to a log."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.schedule.place import Last, Place
from orchestrator.units import duration

LIMIT = 5_000_000
"""Bytes of a log; what is older goes to NAME.log.1, and what is older than that goes."""


class Log:
    """A log that never holds more than LIMIT, and one older piece of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_line = b""
        self._open()

    def _open(self) -> None:
        self._file = self._path.open("ab")
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Add to the log."""
        if self._size and self._size + len(data) > LIMIT:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._open()
        self._file.write(data)
        self._file.flush()
        self._size += len(data)
        lines = [line for line in data.splitlines() if line.strip()]
        self._last_line = lines[-1] if lines else self._last_line

    def note(self, text: str) -> None:
        """Add a line of our own, with date and time."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.write(f"=== {stamp} {text}\n".encode("utf-8", "surrogateescape"))

    @property
    def last_words(self) -> str:
        """The last line that says something."""
        return self._last_line[-300:].decode("utf-8", "replace").strip().removeprefix("orch: ")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True)
class Fired:
    """How a firing went: exit status (128+N for signal N), how long it took, and its last words."""

    status: int
    took: str
    last_words: str


def fire(place: Place, name: str, argv: Sequence[str], show: Callable[[bytes], object]) -> Fired:
    """Run a command for an entry, its output to the log and to `show`.

    Raises Busy when the last firing still runs.
    """
    with place.held():
        log = Log(place.log)
        try:
            return _run(place, name, argv, log, show)
        finally:
            log.close()


def _run(place: Place, name: str, argv: Sequence[str], log: Log, show: Callable[[bytes], object]) -> Fired:
    started = time.time()
    log.note(f"{name} starts")
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout
        while data := os.read(process.stdout.fileno(), 65536):
            log.write(data)
            show(data)
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    fired = Fired(status, duration(time.time() - started), log.last_words)
    place.remember(Last(started, time.time(), status))
    log.note(f"{name} ended with status {status} after {fired.took}")
    return fired
