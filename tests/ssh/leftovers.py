"""What a test has left in this process: threads, open files, and processes that it started."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def children() -> set[int]:
    """Return the processes that this one started and that are still there."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def count() -> dict[str, int]:
    """Return how many threads, open files and child processes there are."""
    return {
        "threads": len(threading.enumerate()),
        "files": len(os.listdir("/dev/fd")),
        "processes": len(children()),
    }


@contextmanager
def nothing_left(warm_up: Callable[[], object]) -> Iterator[None]:
    """Hold that a block leaves no more behind than was there; what imports open once, `warm_up` opens."""
    warm_up()
    before = _settled(count())
    yield
    until = time.monotonic() + 60
    while any(count()[kind] > before[kind] for kind in before) and time.monotonic() < until:
        time.sleep(0.02)
    after = count()
    assert all(after[kind] <= before[kind] for kind in before), (before, after, threading.enumerate())


def _settled(found: dict[str, int]) -> dict[str, int]:
    """Return the counts once they have stopped to fall: threads end a moment after their connection."""
    quiet = time.monotonic() + 0.3
    while time.monotonic() < quiet:
        time.sleep(0.02)
        if (now := count()) != found:
            found, quiet = now, time.monotonic() + 0.3
    return found
