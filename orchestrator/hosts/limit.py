"""A deadline as a value that is handed on, so that all the steps of one thing share it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Limit:
    """So many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.left == 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Don't count the time within: a person is being asked."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - began

    @contextmanager
    def guard(self, release: Callable[[], object]) -> Iterator[None]:
        """Call `release` when the time is over and the block within has not ended.

        For calls that know no timeout of their own and end when their connection is closed.
        """
        timer = threading.Timer(self.left, release)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
