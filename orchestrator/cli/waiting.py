"""Who is still being waited for: one line on a terminal, after two seconds, that leaves no trace."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

SILENT = 2.0
"""Seconds of work of which nothing is said."""

_AGAIN = 1.0  # seconds between two drawings

_CLEAR = "\r\x1b[K"


class Waiting:
    """A line about the hosts that have not answered yet. Talk goes before it; a question is alone."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._left: dict[str, None] = {}
        self._began, self._shown, self._hidden = 0.0, False, 0
        self._over = threading.Event()

    @contextmanager
    def on(self, hosts: Iterable[str]) -> Iterator[None]:
        """Wait for these; nothing is drawn where stderr is no terminal that can take a line back.

        Within another wait this is a part of it.
        """
        if self._left or not can_redraw():
            yield
            return
        self._left, self._began, self._over = dict.fromkeys(hosts), time.monotonic(), threading.Event()
        drawing = threading.Thread(target=self._draw, args=(self._over,), daemon=True)
        drawing.start()
        try:
            yield
        finally:
            self._over.set()
            with self._lock:
                self._clear()
                self._left = {}

    def done(self, host: str) -> None:
        """Wait for a host no longer."""
        with self._lock:
            self._left.pop(host, None)

    def say(self, line: str, *, err: bool = True) -> None:
        """Print a line of talk, or of data, where the waiting line is; that one comes again."""
        with self._lock:
            self._clear()
            click.echo(line, err=err)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Draw nothing within: a question is asked, or something else is drawn."""
        with self._lock:
            self._hidden += 1
            self._clear()
        try:
            yield
        finally:
            with self._lock:
                self._hidden -= 1

    def _draw(self, over: threading.Event) -> None:
        over.wait(SILENT)
        while not over.is_set():
            with self._lock:
                if self._left and not self._hidden and not over.is_set():
                    self._clear()
                    click.echo(self._line(), err=True, nl=False)
                    self._shown = True
            over.wait(_AGAIN)

    def _line(self) -> str:
        from orchestrator.cli.table import cut
        from orchestrator.inventory.folded import folded

        seconds = time.monotonic() - self._began
        names = folded(self._left).replace(",", ", ")
        return cut(f"waiting for {names}   {seconds:.0f} s")

    def _clear(self) -> None:
        if self._shown:
            click.echo(_CLEAR, err=True, nl=False)
            self._shown = False


WAITING = Waiting()
"""The one line of this program: there is one terminal."""


def can_redraw() -> bool:
    """Whether what was written on stderr can be taken back: a terminal that is not dumb."""
    return bool(sys.stderr and sys.stderr.isatty()) and os.environ.get("TERM", "dumb") not in (
        "dumb",
        "unknown",
    )
