"""-v, -vv and --log-file: what is sent to hosts and how it ended, on stderr or in a file."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.cli.waiting import WAITING
from orchestrator.errors import OrchError

Write = Callable[[str], None]

LOG_FILE = "ORCH_LOG_FILE"
"""The environment variable that stands for --log-file."""


class Teller:
    """Writes a line for each command on a host; with `scripts` also what is sent."""

    def __init__(self, write: Write, *, scripts: bool) -> None:
        self._write, self._scripts = write, scripts

    def sending(self, host: str, name: str, text: str) -> None:
        """Show what is sent."""
        if self._scripts:
            lines = "".join(f"\n  | {line}" for line in text.rstrip().splitlines() if text != name)
            self._write(f"> {host}: {name}{lines}")

    def ended(self, host: str, name: str, seconds: float, status: int | None) -> None:
        """Show how it ended."""
        how = "no status" if status is None else f"status {status}"
        self._write(f"< {host}: {name}   {seconds:.2f} s   {how}")


class Log:
    """The log of one call of the command line; does nothing until it is opened."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv, self._file, self._stops = argv, -1, list[Callable[[], object]]()

    def show(self, verbose: int) -> None:
        """Tell on stderr, from now on."""
        self._listen(Teller(WAITING.say, scripts=verbose > 1))

    def open(self, path: Path, named_by: str) -> None:
        """Append everything to a file of the caller's alone. Raises OrchError when that can't be."""
        if self._file >= 0:
            return
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if stat.S_ISREG(os.fstat(self._file).st_mode):
                os.fchmod(self._file, 0o600)
        except OSError as error:
            raise OrchError(f"{path}: {error.strerror}", where=named_by) from error
        self.write(f"orch {shlex.join(without_values(self._argv))}")
        self._listen(Teller(self.write, scripts=True))

    def _listen(self, teller: Teller) -> None:
        from orchestrator.hosts import trace

        self._stops.append(trace.listen(teller))

    def write(self, text: str) -> None:
        """Add a line with the time of day; nothing happens without a file, or when the disk is full."""
        if self._file >= 0:
            now = time.time()
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"
            data = f"{moment} {text}\n".encode("utf-8", "backslashreplace")
            try:
                os.write(self._file, data)
            except OSError:
                return

    def hush(self) -> None:
        """Stop listening."""
        for stop in self._stops:
            stop()
        self._stops.clear()

    def close(self, status: int) -> None:
        """Write down how the call ended, and stop listening."""
        self.write(f"exit {status}")
        self.hush()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def without_values(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line with the values of --env masked."""
    before, ours = "", True
    for word in argv:
        ours = ours and word != "--"
        if not ours:
            yield word
        elif before in ("--env", "-e") and "=" in word:
            yield word.partition("=")[0] + "=***"
        elif word.startswith(("--env=", "-e")) and "=" in word.removeprefix("--env="):
            yield word[: word.index("=", 6 if word.startswith("--env=") else 0)] + "=***"
        else:
            yield word
        before = word


_logs = [Log(())]


@contextmanager
def logging(argv: Sequence[str]) -> Iterator[Log]:
    """Have a log for one call."""
    _logs.append(Log(argv))
    try:
        yield _logs[-1]
    finally:
        _logs.pop()


def log() -> Log:
    """Return the log of this call."""
    return _logs[-1]
