"""Trying again while a server drops us before it says who it is (MaxStartups): nothing has begun by then."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from orchestrator.errors import Unreachable
from orchestrator.hosts.limit import Limit

T = TypeVar("T")

_TRIES = 6  # MaxStartups drops a connection before its banner; the next try may find room
_FIRST_PAUSE = 0.2  # seconds, doubled with each try, half to once and a half of it by chance


class Dropped(Exception):
    """The server closed the connection before it said who it is."""


def while_dropped(once: Callable[[], T], host: str, port: int, limit: Limit) -> T:
    """Do it, again and again while it raises Dropped. Raises Unreachable in the end."""
    for attempt in range(_TRIES):
        try:
            return once()
        except Dropped as error:
            pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.5)
            if attempt + 1 == _TRIES or pause >= limit.left:
                through = str(error) if "ProxyCommand" in str(error) else None
                raise Unreachable(
                    through or f"port {port} takes the connection and closes it at once",
                    where=host,
                    hint="Is its sshd full (MaxStartups), or does it ban this address?",
                ) from error
            time.sleep(pause)
    raise AssertionError("unreachable")
