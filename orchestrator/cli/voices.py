"""What several hosts say at once: each line behind its host's name, what many say together only once."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from itertools import islice
from typing import TextIO

from orchestrator.cli.app import App
from orchestrator.cli.folding import grouped
from orchestrator.cli.waiting import WAITING
from orchestrator.inventory.folded import folded

HOLD = 2.0
"""Seconds for which a line is held, so that hosts that say the same have it together."""

_IN_MEMORY = 1 << 20  # bytes of each stream of each host; more goes to a file


class Held:
    """The lines of a stream that are not shown yet, the last of which may have no end."""

    def __init__(self, files: ExitStack) -> None:
        self._bytes = files.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        self._lines = 0

    def add(self, piece: bytes) -> bool:
        """Take the next bytes; return whether there is a whole line now."""
        self._bytes.write(piece)
        self._lines += piece.count(b"\n")
        return self._lines > 0

    def end(self) -> None:
        """End a last line that has no end of its own."""
        if self._bytes.tell() and not self._rest().endswith(b"\n"):
            self.add(b"\n")

    def _rest(self) -> bytes:
        self._bytes.seek(-1, 2)
        return self._bytes.read()

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines."""
        self._bytes.seek(0)
        yield from islice(self._bytes, self._lines)

    @property
    def same_as(self) -> bytes:
        """Equal where the whole lines are."""
        digest = sha256()
        for line in self.lines():
            digest.update(line)
        return digest.digest()

    def forget(self) -> None:
        """Drop the whole lines."""
        for _ in self.lines():
            pass
        rest = self._bytes.read()
        self._bytes.seek(0)
        self._bytes.truncate()
        self._bytes.write(rest)
        self._lines = 0


class Voice:
    """One host: what it has said and is not shown, and its exit status once it has ended."""

    def __init__(self, host: str, files: ExitStack) -> None:
        self.host, self.out, self.err = host, Held(files), Held(files)
        self.status: int | None = None

    @property
    def same_as(self) -> tuple[bytes, bytes, int]:
        """Equal where all that is to be shown is."""
        return self.out.same_as, self.err.same_as, self.status or 0


class Voices:
    """The hosts of one command, in order. Their threads fill them, the main thread shows them."""

    def __init__(self, hosts: Sequence[str], files: ExitStack) -> None:
        self._voices = {host: Voice(host, files) for host in hosts}
        self._lock = threading.Lock()
        self._since: float | None = None  # when the first of the lines came that are not shown
        self._told: set[str] = set()  # whose status is
        self.failed = False

    def add(self, host: str, out: bytes = b"", err: bytes = b"") -> None:
        """Take what a host says."""
        voice = self._voices[host]
        with self._lock:
            lines = (voice.out.add(out), voice.err.add(err))
            if any(lines) and self._since is None:
                self._since = time.monotonic()

    def end(self, host: str, status: int) -> None:
        """Take how a command has ended."""
        voice = self._voices[host]
        with self._lock:
            voice.status = status
            self.failed = self.failed or status != 0
            for held in (voice.out, voice.err):
                held.end()

    def show_in_time(self) -> None:
        """Show what has been held for long enough. Raises BrokenPipeError."""
        if self._since is not None and time.monotonic() - self._since >= HOLD:
            self.show()

    def show(self) -> None:
        """Show all lines; hosts that say the same have one name together. Raises BrokenPipeError."""
        with self._lock, WAITING.hidden():
            self._since = None
            left = [voice for voice in self._voices.values() if voice.host not in self._told]
            for same in grouped(left, lambda voice: voice.same_as):
                self._show(same)
            self._told.update(voice.host for voice in left if voice.status is not None)

    def _show(self, same: Sequence[Voice]) -> None:
        names, first = folded([voice.host for voice in same]), same[0]
        _print(sys.stdout, names, first.out)
        _print(sys.stderr, names, first.err)
        if first.status:
            App.say(f"orch: {names}: exit status {first.status} is the command's")
        for voice in same:
            voice.out.forget()
            voice.err.forget()


def _print(to: TextIO, names: str, held: Held) -> None:
    to.flush()
    for line in held.lines():
        to.buffer.write(f"{names}: ".encode() + line)
    to.buffer.flush()
