"""What each host of a deploy is at: on a terminal one live line per host, elsewhere a line per step."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from orchestrator.cli.app import App
from orchestrator.cli.waiting import WAITING, can_redraw

if TYPE_CHECKING:
    from orchestrator.container.image.steps import Steps

EVERY = 0.25
"""Seconds between two drawings of the live lines."""


@dataclass
class _Host:
    """What one host is at, and since when."""

    step: str = ""
    since: float = 0.0
    steps: Steps | None = None


@dataclass
class Stages:
    """Takes the lines of many deploys at once, each from a thread of its own; see `stages`.

    `screen` is where live lines are drawn; None: each step is said once.
    """

    app: App
    screen: TextIO | None
    _hosts: dict[str, _Host] = field(default_factory=dict)
    _drawn: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def teller(self, host: str) -> Callable[[str], None]:
        """Return what takes one host's lines: a stage, or after a blank what the engine says."""
        from orchestrator.container.image.steps import Steps

        now = self._hosts.setdefault(host, _Host())

        def tell(line: str) -> None:
            if not line.startswith(" "):
                now.steps = Steps()
                self._show(host, now, line, kept=line.startswith("note: "))
            elif self.app.verbose:
                self.app.say(f"{host}   {line}")
            elif now.steps and (step := now.steps.hear(line)) and (self.screen or not now.steps.passing):
                self._show(host, now, step)

        return tell

    def _show(self, host: str, now: _Host, text: str, *, kept: bool = False) -> None:
        now.step, now.since = text, time.monotonic()
        if kept or not self.screen:
            with self.aside():
                self.app.say(f"{host}   {text}")

    def done(self, host: str) -> None:
        """Take a host's line away."""
        self._hosts.pop(host, None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the live lines away while the block prints."""
        with self._lock:
            self._erase()
            yield

    def lines(self) -> list[str]:
        """Return the live lines: host, seconds of its step, step."""
        at = time.monotonic()
        shown = [(host, now) for host, now in list(self._hosts.items()) if now.step]
        return [f"{host}   {at - now.since:3.0f} s   {now.step}" for host, now in shown]

    def _erase(self) -> None:
        if self.screen and self._drawn:
            self.screen.write(f"\x1b[{self._drawn}A\x1b[J")
            self.screen.flush()
            self._drawn = 0

    def draw(self) -> None:
        """Draw the live lines anew."""
        assert self.screen
        size = shutil.get_terminal_size()
        with self._lock:
            lines = [line[: size.columns - 1] for line in self.lines()[: size.lines - 1]]
            self._erase()
            self.screen.write("".join(f"{line}\n" for line in lines))
            self.screen.flush()
            self._drawn = len(lines)


@contextmanager
def stages(app: App) -> Iterator[Stages]:
    """Show how far the hosts of the block are."""
    live = can_redraw() and not app.verbose
    shown, over = Stages(app, sys.stderr if live else None), threading.Event()
    if not live:
        yield shown
        return

    def keep_drawing() -> None:
        while not over.wait(EVERY):
            shown.draw()

    drawing = threading.Thread(target=keep_drawing, daemon=True)
    with WAITING.hidden():
        drawing.start()
        try:
            yield shown
        finally:
            over.set()
            drawing.join()
            with shown.aside():
                pass
