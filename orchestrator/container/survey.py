"""From a host's settings to the deploy that they ask for, planned in one exec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from orchestrator.container.deploy import Deploy
from orchestrator.container.direct.apptainer import survey_apptainer
from orchestrator.container.direct.own import survey_own
from orchestrator.container.direct.venv import survey_venv
from orchestrator.container.docker import survey_docker
from orchestrator.container.identity import Identity, identity_of
from orchestrator.container.lock import Lock, read_lock
from orchestrator.container.settle import settle
from orchestrator.errors import ConfigError
from orchestrator.hosts.base import Machine
from orchestrator.inventory import Host


class Survey(Protocol):
    """Asks a host in one exec and plans the deploy by one engine."""

    def __call__(  # noqa: D102
        self, machine: Machine, identity: Identity, environ: Mapping[str, str], *, replace: bool
    ) -> Deploy: ...


class LockedSurvey(Protocol):
    """The same for an engine whose environment can be locked."""

    def __call__(  # noqa: D102
        self,
        machine: Machine,
        identity: Identity,
        environ: Mapping[str, str],
        *,
        replace: bool,
        lock: Lock | None,
    ) -> Deploy: ...


SURVEYS: Mapping[str, Survey] = {
    "docker": survey_docker,
    "podman": survey_docker,
    "venv": survey_venv,
    "host": survey_own,
    "apptainer": survey_apptainer,
}
"""By the setting `engine`, but for auto."""

LOCKED: Mapping[str, LockedSurvey] = {
    "docker": survey_docker,
    "podman": survey_docker,
    "venv": survey_venv,
}
"""Those whose environments orch makes of packages, which can be locked."""


def survey(
    machine: Machine,
    folder: Path,
    environ: Mapping[str, str],
    *,
    replace: bool = False,
    locked: bool = False,
) -> Deploy:
    """Plan the deploy of a host for the project around `folder`, in one exec; nothing is changed.

    `locked`: it is to be exactly what image.lock says. Raises ConfigError for settings, and for what is not
    as locked; Refused, Busy or HostError for what the host says.
    """
    identity = identity_of(machine.host, folder)
    lock = read_lock(identity.project.folder) if locked else None
    settle(machine, identity.place(machine.host))
    engine = machine.host.settings.engine
    if not lock:
        return SURVEYS[engine](machine, identity, environ, replace=replace)
    check_lockable(machine.host)
    return LOCKED[engine](machine, identity, environ, replace=replace, lock=lock)


def check_lockable(host: Host) -> None:
    """Raise ConfigError for an engine whose packages are none of orch's."""
    engine = host.settings.engine
    if engine not in LOCKED:
        raise ConfigError(
            f"{host.name}: engine = {engine} can't be locked: its packages are not of orch's choice",
            where=host.came_from("engine"),
            hint="docker, podman and venv can.",
        )
