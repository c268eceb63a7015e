"""Deleting all of a project on a host, after its container is down: runs, code, home, workspace."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.container.identity import caller
from orchestrator.container.turn import LOCK, turn
from orchestrator.errors import Refused
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render

DEADLINE = 1800.0
"""Seconds for it: runs may have very many files."""


@dataclass(frozen=True)
class Purge:
    """What there is of a project on a host: names of folders with bytes; `audit`: what tells of it later."""

    parts: tuple[tuple[str, int], ...]
    audit: str = ""

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return dict(self.parts).get("whole", 0)


def survey_purge(machine: Machine, place: str) -> Purge:
    """Say what is in the project's folder. Raises Refused where something keeps it from going."""
    return _ask(machine, place, "")


def purge(machine: Machine, place: str) -> Purge:
    """Delete it. `place` is absolute. Raises Refused while a run lives, Busy while somebody deploys."""
    with turn(machine, place, what="purge") as token:
        return _ask(machine, place, token)


def _ask(machine: Machine, place: str, token: str) -> Purge:
    text = render("container/purge.sh.j2", place=on_host(place).text, by=caller(), token=token, turn=LOCK)
    answer = machine.ask(Script("purge", text), deadline=DEADLINE)
    parts, audit = [], ""
    for line in answer.text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "refused":
            raise Refused(rest, where=machine.host.name, hint="Nothing was deleted")
        if word == "gone":
            audit = rest
        elif rest.isdigit():
            parts.append((word, int(rest) * 1024))
    return Purge(tuple(parts), audit)
