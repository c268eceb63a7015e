"""What a deploy of one host is, whatever engine it is by."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator import __version__
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity, caller
from orchestrator.container.image.build import Told
from orchestrator.container.proof import Seen
from orchestrator.errors import Busy
from orchestrator.facts.place import LiveRun
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import on_host
from orchestrator.inventory import Host

LOOK_DEADLINE = 90.0
"""Seconds for the facts: nvidia-smi without persistence mode takes most of it."""


@dataclass(frozen=True)
class Ready:
    """What a deploy left. `seen` None: the environment was there already."""

    environment: Environment
    seen: Seen | None
    gpus: int  # how many were asked for


class Deploy(Protocol):
    """A deploy of one host that is planned and not yet done."""

    @property
    def host(self) -> Host:
        """The host."""

    @property
    def head(self) -> str:
        """What the host is, in a line."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What would be done."""

    @property
    def unchanged(self) -> Environment | None:
        """What is deployed, when nothing is to be done."""

    @property
    def ending(self) -> tuple[LiveRun, ...]:
        """Runs that it ends: only with --replace."""

    @property
    def rendered(self) -> Iterable[tuple[str, str]]:
        """Each file that would reach the host, by name; secrets masked."""

    def carry_out(self, machine: Machine, told: Told) -> Ready:
        """Do what is planned. Raises OrchError; the host then has what it had before."""


def common_values(host: Host, place: str) -> dict[str, Any]:
    """Return the values of questions about a host and the project's folder there (may begin with `~/`)."""
    return {
        "root": host.settings.root,
        "engine": host.settings.engine,
        "place": on_host(place).text,
        "volumes": [(v.source, on_host(v.source).text) for v in host.settings.volumes],
    }


def stamp(identity: Identity) -> dict[str, Any]:
    """Return what a record says of who deployed: fields of Environment."""
    return {
        "person": identity.person.name,
        "project": identity.project.name,
        "folder": identity.folder,
        "deployed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "by": caller(),
        "orch": __version__,
    }


def changed_meanwhile(host: Host) -> Busy:
    """Return the error for a host that is not what it was when the plan was made."""
    return Busy("what is there has changed since the plan was made", where=host.name, hint="Deploy again.")
