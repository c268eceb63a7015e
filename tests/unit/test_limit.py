"""Deadlines that are handed on."""

from __future__ import annotations

import threading
import time

import paramiko

from orchestrator.hosts.known_hosts import PublicKey
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.opening import _Policy


def test_time_runs_out_and_never_below_nothing() -> None:
    limit = Limit(0.01)
    assert 0 < limit.left <= 0.01
    assert not limit.over
    time.sleep(0.02)
    assert (limit.left, limit.over, limit.seconds) == (0.0, True, 0.01)


def test_the_time_that_a_person_takes_is_not_counted() -> None:
    class Slow:
        def kinds(self) -> list[str]:
            return []

        def check(self, key: PublicKey) -> None:
            time.sleep(0.3)

    limit = Limit(0.25)
    key = paramiko.ECDSAKey.generate()
    _Policy(Slow(), limit).missing_host_key(None, "gpu01", key)
    assert not limit.over


def test_a_guard_releases_what_hangs_and_leaves_alone_what_ends() -> None:
    released = threading.Event()
    with Limit(0.01).guard(released.set):
        assert released.wait(20)
    released.clear()
    with Limit(0.05).guard(released.set):
        pass
    assert not released.wait(0.1)
