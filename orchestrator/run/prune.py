"""Old runs that can go, and the code that no run needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.container.identity import caller
from orchestrator.container.turn import LOCK, turn
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.run.record import Record
from orchestrator.run.status import judge

DEADLINE = 900.0
"""Seconds for it: a run may have very many files."""

SPARED = 60
"""Minutes for which a bundle stays that no run needs: one may be about to begin."""

YOUNG = "it came within the hour, and a run may be about to begin"


@dataclass(frozen=True)
class Found:
    """Something that can go, or went. `kind`: run | bundle; `kept`: why it stays, else empty."""

    kind: str
    name: str
    size: int | None  # bytes on the disk; None for what can't go
    kept: str = ""
    spared: bool = False  # it stays as it should, and goes another time


def old(records: Sequence[Record], project: str, seconds: float) -> list[str]:
    """Return the ids of a project's runs of which every worker ended more than so many seconds ago."""
    runs: dict[str, bool] = {}
    for record in records:
        if record.spec.project == project:
            runs[record.spec.run] = runs.get(record.spec.run, True) and _is_old(record, seconds)
    return sorted(run for run, is_old in runs.items() if is_old)


def _is_old(record: Record, seconds: float) -> bool:
    status = judge(record)
    since = status.ended or status.started
    return not status.live and since is not None and record.ground.now - since > seconds


def survey(machine: Machine, place: str, runs: Sequence[str]) -> list[Found]:
    """Say what would go with these runs, with sizes. `place` is the project's folder on the host."""
    return _ask(machine, place, runs, "")


def prune(machine: Machine, place: str, runs: Sequence[str]) -> list[Found]:
    """Delete these runs, and the code that none needs then; what lives stays. `place` is absolute.

    Raises Busy while somebody deploys or launches. What can't be deleted is as it was.
    """
    with turn(machine, place, what="prune") as token:
        return _ask(machine, place, runs, token)


def _ask(machine: Machine, place: str, runs: Sequence[str], token: str) -> list[Found]:
    text = render(
        "run/prune.sh.j2",
        place=on_host(place).text,
        runs=list(runs),
        spared=SPARED,
        by=caller(),
        token=token,
        turn=LOCK,
    )
    answer = machine.ask(Script("prune", text), deadline=DEADLINE)
    return [_found(*line.split(" ", 2)) for line in answer.text.splitlines() if line.count(" ") >= 2]


def _found(word: str, name: str, rest: str) -> Found:
    if word == "kept":
        return Found("run", name, None, rest)
    count = int(rest) * 1024 if rest.isdigit() else 0
    if word == "spared":
        return Found("bundle", name, count, YOUNG, spared=True)
    return Found(word, name, count)
