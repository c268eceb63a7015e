"""What a project's folder on a host holds, which runs live there, and whether the volumes are there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.facts.lines import Lines
from orchestrator.facts.mount import Mount, mount
from orchestrator.facts.question import Fact, Section


@dataclass(frozen=True)
class LiveRun:
    """A run whose lock is held, and the container it is in (None: in none, or not yet known)."""

    run: str
    container: str | None
    person: str | None = None
    installation: str | None = None  # the folder in P/venv that it began in


@dataclass(frozen=True)
class Source:
    """A volume's source: as it is written, absolute, and `folder`, `file` or `missing`."""

    written: str
    path: str
    kind: str


@dataclass(frozen=True)
class PlaceReport:
    """The project's folder P. `environment`: the text of environment.json, None when nothing is deployed."""

    path: str
    machine: str = ""  # the host's own name, as folders are named
    account: str = ""  # who looks
    mount: Mount = field(default_factory=Mount)
    exists: bool = False
    owner: int | None = None
    owned: str | None = None  # the text of owner.json: whose the folder is
    others: tuple[str, ...] = ()  # machines that share this home and have the project deployed too
    environment: str | None = None
    account_keys: tuple[str, ...] = ()  # lines of the account's own authorized_keys
    placed_keys: tuple[str, ...] = ()  # lines of the container's
    sources: tuple[Source, ...] = ()
    live: tuple[LiveRun, ...] = ()  # by the locks in P
    processes: tuple[LiveRun, ...] = ()  # by their supervisors' command lines, whoever's, in containers
    venvs: tuple[str, ...] = ()  # marks of whole installations: P/venv/<digest>/whole
    venv_changes: tuple[tuple[str, str], ...] = ()  # mark, and `+name-version` or `-name-version` by hand

    @property
    def here(self) -> str:
        """What of P is this host's alone."""
        return f"{self.path}/hosts/{self.machine}"

    def inside(self, container: str) -> tuple[LiveRun, ...]:
        """Return the runs that live in a container; one that has named none yet may be in it."""
        locked = [r for r in self.live if r.container in (container, None)]
        known = {r.run for r in locked}
        return (*locked, *(r for r in self.processes if r.container == container and r.run not in known))


def parse(section: Section) -> PlaceReport:
    """Read the answer of `facts/place.sh.j2`."""
    lines = Lines(section.text)
    owner = lines.number("owner")
    return PlaceReport(
        path=lines.text("place"),
        machine=lines.text("machine"),
        account=lines.text("account"),
        mount=mount(lines),
        exists=bool(lines.texts("owner")),
        owner=owner,
        owned=lines.text("owned") or None,
        others=tuple(lines.texts("other")),
        environment=lines.text("environment") or None,
        account_keys=keys(lines.texts("key")),
        placed_keys=keys(lines.texts("placed-key")),
        sources=tuple(Source(w, p, k) for w, p, k, *_ in lines.all("volume", 3)),
        live=tuple(_live(run, state, *more[:1]) for run, state, *more in lines.all("live", 2)),
        processes=tuple(LiveRun(run, container) for run, container, *_ in lines.all("process", 2)),
        venvs=tuple(lines.texts("venv")),
        venv_changes=tuple((whole, change) for whole, change, *_ in lines.all("venv-change", 2)),
    )


PLACE: Fact[PlaceReport] = Fact("place", "facts/place.sh.j2", parse)


def keys(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of an authorized_keys file that hold a key, without blanks around them."""
    stripped = (line.strip() for line in lines)
    return tuple(line for line in stripped if line and not line.startswith("#"))


def _live(run: str, state: str, began: str = "") -> LiveRun:
    try:
        found: Mapping[str, Any] = json.loads(state or "{}")
    except ValueError:
        found = {}
    return LiveRun(run, found.get("container") or None, found.get("person"), began or None)
