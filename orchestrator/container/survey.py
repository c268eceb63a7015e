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
from orchestrator.container.settle import settle
from orchestrator.hosts.base import Machine


class Survey(Protocol):
    """Asks a host in one exec and plans the deploy by one engine."""

    def __call__(  # noqa: D102
        self, machine: Machine, identity: Identity, environ: Mapping[str, str], *, replace: bool
    ) -> Deploy: ...


SURVEYS: Mapping[str, Survey] = {
    "docker": survey_docker,
    "podman": survey_docker,
    "venv": survey_venv,
    "host": survey_own,
    "apptainer": survey_apptainer,
}
"""By the setting `engine`, but for auto."""


def survey(machine: Machine, folder: Path, environ: Mapping[str, str], *, replace: bool = False) -> Deploy:
    """Plan the deploy of a host for the project around `folder`, in one exec; nothing is changed.

    Raises ConfigError for settings, Refused, Busy or HostError for what the host says.
    """
    identity = identity_of(machine.host, folder)
    settle(machine, identity.place(machine.host))
    plan = SURVEYS[machine.host.settings.engine]
    return plan(machine, identity, environ, replace=replace)
