"""From a host's settings to the deploy that they ask for, planned in one exec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.container.deploy import Deploy
from orchestrator.container.docker import survey_docker
from orchestrator.container.identity import identity_of
from orchestrator.container.venv import survey_venv
from orchestrator.hosts.base import Machine


def survey(machine: Machine, folder: Path, environ: Mapping[str, str], *, replace: bool = False) -> Deploy:
    """Plan the deploy of a host for the project around `folder`, in one exec; nothing is changed.

    Raises ConfigError for settings, Refused, Busy or HostError for what the host says.
    """
    identity = identity_of(machine.host, folder)
    if machine.host.settings.engine == "venv":
        return survey_venv(machine, identity, environ)
    return survey_docker(machine, identity, environ, replace=replace)
