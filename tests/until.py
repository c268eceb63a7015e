"""Waiting for what must come true: for the thing, never for time to pass."""

import time
from collections.abc import Callable


def until(true: Callable[[], object], what: str = "what is waited for", seconds: float = 60.0) -> None:
    """Poll `true`; fail with `what` when it is not true within `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} did not come true in {seconds:g} s"
        time.sleep(0.02)
