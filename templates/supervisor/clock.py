"""Sleeping until it is time or something happens."""

import os
import select
import time

_BOOTTIME = 7  # CLOCK_BOOTTIME: like /proc/uptime; no setting of the clock moves it


def uptime():
    return time.clock_gettime(_BOOTTIME)


class Bell:
    """A pipe that ends a sleep: signals ring it, and threads."""

    def __init__(self):
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.writable, False)

    def ring(self):
        try:
            os.write(self.writable, b".")
        except OSError:
            pass  # full: it rings

    def sleep(self, until):
        """Until then (a time of time.monotonic), or until it rings."""
        ready, _, _ = select.select([self.readable], [], [], max(0.0, until - time.monotonic()))
        if ready:
            os.read(self.readable, 4096)
