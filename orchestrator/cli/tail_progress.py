"""`orch tail --progress`: how far each worker of a run is, in a line that changes, until the run ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.redrawn import in_place, redrawn
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import NotPermitted, OrchError

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.run.record import Record

LOOK = 2.0
"""Seconds between two looks at the hosts."""

EVERY = 10.0
"""Seconds between two lines of one worker, where lines can't be drawn over."""

TAIL = 3000
"""Bytes of the log's end that are looked at for progress."""

Lines = dict[str, str]


def watch(app: App, found: FoundRun, *, live: bool) -> None:
    """Show a line for each worker until all have ended; without `live` as they are now. Raises NotPermitted.

    A host that is silent is asked again for as long as it takes, or until the others have ended without it.
    """
    with WAITING.hidden(), _shown() as show:
        left = [worker.host for worker in found.workers]
        lines: Lines = {}
        ended: list[Record] = []
        while left:
            outcomes = app.each(left, lambda machine: _record(machine, found.id))
            lines.update((o.host.name, _line(o)) for o in outcomes)
            ended += [o.value for o in outcomes if o.value and _over(o)]
            going = [o for o in outcomes if not _over(o)]
            left = [o.host for o in going] if live and not _without(going, ended) else []
            show(lines, not left)
            if left:
                time.sleep(LOOK)


def _record(machine: Machine, run: str) -> Record | None:
    from orchestrator.cli.runs import read_records

    return next(iter(read_records(machine, run=run, tail=TAIL)), None)


def _over(outcome: Outcome[Record | None]) -> bool:
    from orchestrator.run.status import judge

    if isinstance(outcome.error, NotPermitted):
        raise outcome.error
    return not outcome.error and (outcome.value is None or not judge(outcome.value).live)


def _without(going: Sequence[Outcome[Record | None]], ended: Sequence[Record]) -> bool:
    """Whether all that is left is hosts that are silent, and that the other workers have lost."""
    from orchestrator.run.first import lost_hosts

    return all(o.error for o in going) and {o.host.name for o in going} <= lost_hosts(ended)


def _line(outcome: Outcome[Record | None]) -> str:
    """Return how far a worker is, or what else there is to say of it."""
    from orchestrator.logs.progress import progress
    from orchestrator.run.status import judge

    if outcome.error:
        return _silent(outcome.error)
    if outcome.value is None:
        return "its record is gone"
    status, record = judge(outcome.value), outcome.value
    words = [status.state] if status.state != "running" else []
    words += [progress(record.progress, record.tail, now=time.time())] if status.live else []
    return "; ".join(w for w in (*words, status.cause) if w) or status.state


def _silent(error: OrchError) -> str:
    return f"no answer: {error.message}; trying on"


@contextmanager
def _shown() -> Iterator[Callable[[Lines, bool], None]]:
    """Draw the lines in one place; where that can't be, print what is new, but not often."""
    if not in_place():
        yield Printed().show
        return
    from orchestrator.cli.table import fit

    with redrawn(plain=False) as draw:
        yield lambda lines, _last: draw("\n".join(fit(aligned(lines))))


def aligned(lines: Lines) -> list[str]:
    """Return the lines, each behind its host's name; a single one alone."""
    if len(lines) < 2:
        return list(lines.values())
    width = max(map(len, lines))
    return [f"{host:<{width}}   {line}" for host, line in lines.items()]


class Printed:
    """Lines one after the other: of each worker one in EVERY seconds at most, and its last."""

    def __init__(self) -> None:
        self._told: Lines = {}
        self._at: dict[str, float] = {}

    def show(self, lines: Lines, last: bool) -> None:
        """Print what is new; `last`: nothing comes after it."""
        for (host, text), line in zip(lines.items(), aligned(lines), strict=True):
            waited = time.monotonic() - self._at.get(host, float("-inf"))
            if self._told.get(host) != text and (last or waited >= EVERY):
                self._told[host], self._at[host] = text, time.monotonic()
                click.echo(line)
