"""Of several workers of one run: which one its end comes from, and how the run as a whole stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.run.record import Record
from orchestrator.run.status import Status, judge, last_alive

_BAD = ("failed", "lost", "stopped")

WORST = (*_BAD, "running", "starting", "succeeded")
"""States, the worst first: that of its worst worker is the run's."""


def first_to_die(records: Sequence[Record]) -> Record | None:
    """Return the worker that the run's end comes from; None while none has ended badly."""
    judged = [(record, judge(record)) for record in records]
    ended = [(record, status) for record, status in judged if status.state in _BAD]
    return next(iter(in_order(ended)), None)


def in_order(judged: Sequence[tuple[Record, Status]]) -> list[Record]:
    """Return the workers with the first to fail in front: the one that the others name.

    Of those whose end is their own: failed before lost before stopped, the oldest end first.
    """
    blamed = {host for record, _ in judged if (host := _blames(record))}

    def key(pair: tuple[Record, Status]) -> tuple[bool, bool, bool, int, float]:
        record, status = pair
        bad = status.state in _BAD
        rank = _BAD.index(status.state) if bad else len(_BAD)
        return not bad, bool(_blames(record)), record.host not in blamed, rank, -_ago(record, status)

    return [record for record, _ in sorted(judged, key=key)]


def lost_hosts(records: Sequence[Record]) -> set[str]:
    """Return the hosts without which the workers have ended: gone silent, or never there."""
    causes = [record.state.get("cause") or {} for record in records if record.state.get("ended")]
    return {
        str(c.get("host")) for c in causes if c.get("kind") == "peer" and c.get("how") in ("lost", "absent")
    }


def _ago(record: Record, status: Status) -> float:
    """Return the seconds since a worker's end, or since it was last seen alive; by its host's clock alone."""
    when = None if status.live else last_alive(record, status)
    return 0.0 if when is None else max(0.0, record.ground.now - when)


def _blames(record: Record) -> str:
    """Return the host that a worker's recorded cause names as the reason; empty where it is its own."""
    cause: dict[str, Any] = record.state.get("cause") or {}
    return str(cause.get("host" if cause.get("kind") == "peer" else "on") or "")
