"""SIGTERM: what a scheduler, `docker stop` and a supervisor send to end a training in good order."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from types import FrameType
from typing import Iterator

STATUS = 128 + signal.SIGTERM
"""The exit status of a program that SIGTERM ended, as shells count it."""


class Stop:
    """Turns SIGTERM into an exit at once, or, while postponed, into a wish that each step looks at."""

    def __init__(self) -> None:
        self.asked = False
        self._postponed = False

    def listen(self) -> None:
        """From now on SIGTERM comes here; a second one ends the program on the spot."""
        signal.signal(signal.SIGTERM, self._on_signal)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Inside, SIGTERM only sets `asked`; a wish that nobody has answered is answered at the end."""
        self._postponed = True
        try:
            yield
        finally:
            self._postponed = False
        if self.asked:
            raise SystemExit(STATUS)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.asked = True
        if not self._postponed:
            raise SystemExit(STATUS)
