"""SIGTERM: what a scheduler, `docker stop` and a supervisor send to end a training in good order."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from types import FrameType
from typing import Iterator, NoReturn

STATUS = 128 + signal.SIGTERM
"""The exit status of a program that SIGTERM ended, as shells count it."""

PATIENCE = 20.0
"""Seconds until the step must have ended. Whoever sends SIGTERM waits 30 s, as a rule, and then kills."""

AT_ONCE = 1.0
"""Seconds where there is nothing to finish."""


class Stop:
    """Turns SIGTERM into an exit at once, or, while postponed, into a wish that each step looks at."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.asked = False
        self.patience = patience
        self._postponed = False
        self._answered = threading.Event()

    def listen(self) -> None:
        """From now on SIGTERM comes here; a second one ends the program on the spot."""
        self.hear()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()

    def hear(self) -> None:
        """Take SIGTERM back from whoever took it: newer TensorFlows do, when they join several workers."""
        if not self.asked:
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
            self.leave()

    def ignore(self) -> None:
        """From now on it is too late to stop."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.asked = False
        self.answer()

    def leave(self) -> NoReturn:
        """Do what was asked."""
        self.answer()
        raise SystemExit(STATUS)

    def answer(self) -> None:
        """The wish has been heard: from now on it may take its time."""
        self._answered.set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.asked = True
        if not self._postponed:
            self.leave()

    def _watch(self, reader: int) -> None:
        """Leave where Python can't: a step that waits for a worker that has gone looks at no signal."""
        while os.read(reader, 1) != bytes([signal.SIGTERM]):
            pass
        patience = self.patience if self._postponed else AT_ONCE
        if self._answered.wait(patience):
            return
        words = (
            f"SIGTERM: no answer from TensorFlow in {patience:g} s; left without a checkpoint of this step"
        )
        print(f"trainer: {words}", file=sys.stderr, flush=True)
        os._exit(STATUS)
