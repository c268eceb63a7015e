"""What all workers must decide alike: to stop, or to save, after the very same step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, NamedTuple

from .stopping import Stop

if TYPE_CHECKING:
    from .together import Together

PERIOD = 1.0
"""Seconds between two meetings, about: each costs a word from each worker to each."""
SAVE = 600.0
"""Seconds after which a checkpoint is due, if none was written meanwhile."""
LONGEST = 1000
"""Steps between two meetings at most."""


class Wishes(NamedTuple):
    """What is to be done after this step."""

    stop: bool = False
    save: bool = False


class Beat:
    """Looks at SIGTERM and at the clock after each step.

    A single worker does so at each step. Several meet every so many steps, about as
    many as take the chief a second: a worker that stopped by itself would leave the others waiting for
    its part of the next step.
    """

    def __init__(self, stop: Stop, together: Together, clock: Callable[[], float] = time.monotonic) -> None:
        self.stop = stop
        self.together = together
        self.clock = clock
        self.saved = clock()
        self.begin()

    def step(self) -> Wishes:
        """Count a step, which all workers have done; return what they agree on."""
        self.since += 1
        if self.together.alone:
            return Wishes(self.stop.asked, self._due())
        if self.since < self.interval:
            return Wishes()
        chief = self.together.place.chief
        asked, due, interval = self.together.totals(
            self.stop.asked, chief and self._due(), self._next() if chief else 0
        )
        self.met, self.since, self.interval = self.clock(), 0, int(interval)
        return Wishes(asked > 0, due > 0)

    def begin(self) -> None:
        """Steps of another kind follow, training or validation: meet after the first one."""
        self.met, self.since, self.interval = self.clock(), 0, 1

    def has_saved(self) -> None:
        """A checkpoint was written: the clock starts anew."""
        self.saved = self.clock()

    def _due(self) -> bool:
        return self.clock() - self.saved >= SAVE

    def _next(self) -> int:
        taken = max(self.clock() - self.met, 1e-6)
        return max(1, min(LONGEST, int(self.since * PERIOD / taken)))
