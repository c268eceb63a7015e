"""Deadlines that are handed on."""

from __future__ import annotations

import threading
import time

import paramiko

from orchestrator.hosts.known_hosts import PublicKey
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.opening import _Policy


def test_time_runs_out_and_never_below_nothing() -> None:
    limit = Limit(60)
    assert 0 < limit.left <= 60
    assert not limit.over
    limit = Limit(0.01)
    time.sleep(0.02)
    assert (limit.left, limit.over, limit.seconds) == (0.0, True, 0.01)


def test_the_time_that_a_person_takes_is_not_counted() -> None:
    class Slow:
        def kinds(self) -> list[str]:
            return []

        def check(self, key: PublicKey) -> None:
            time.sleep(0.3)

    limit = Limit(60)
    key = paramiko.ECDSAKey.generate()
    began, left = time.monotonic(), limit.left
    _Policy(Slow(), limit).missing_host_key(None, "gpu01", key)
    assert left - limit.left < time.monotonic() - began - 0.29


def test_a_guard_releases_what_hangs_and_leaves_alone_what_ends() -> None:
    released = threading.Event()
    with Limit(0.01).guard(released.set):
        assert released.wait(20)
    released.clear()
    with Limit(60).guard(released.set):
        (timer,) = (thread for thread in threading.enumerate() if isinstance(thread, threading.Timer))
    timer.join(20)
    assert not timer.is_alive()
    assert not released.is_set()
