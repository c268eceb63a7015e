"""A deploy of one host, whatever engine it is by: planned in one exec, then carried out."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.container.build import Told
from orchestrator.container.engine import Environment
from orchestrator.container.identity import identity_of
from orchestrator.container.proof import Seen
from orchestrator.facts.place import LiveRun
from orchestrator.hosts.base import Machine
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


def survey(machine: Machine, folder: Path, environ: Mapping[str, str], *, replace: bool = False) -> Deploy:
    """Plan the deploy of a host for the project around `folder`, in one exec; nothing is changed.

    Raises ConfigError for settings, Refused, Busy or HostError for what the host says.
    """
    identity = identity_of(machine.host, folder)
    if machine.host.settings.engine == "venv":
        from orchestrator.container.venv import survey_venv

        return survey_venv(machine, identity, environ)
    from orchestrator.container.docker import survey_docker

    return survey_docker(machine, identity, environ, replace=replace)


def utc_now() -> str:
    """Return the time as records hold it: 2026-11-30T02:14:07Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def caller() -> str:
    """Return who calls orch, and from where: `ana@laptop`."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"
