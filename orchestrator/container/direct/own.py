"""A deploy by host: the account's own environment. Nothing is installed, only proved and written down."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.container.direct.base import DirectDeploy
from orchestrator.container.direct.known import Known, look
from orchestrator.container.identity import Identity
from orchestrator.container.telling import plan_line
from orchestrator.errors import ConfigError, HostError
from orchestrator.facts.own import OwnReport
from orchestrator.hosts.base import Machine
from orchestrator.inventory import Host
from orchestrator.units import dotted

OLDEST = (3, 6)
"""The Python that a run's supervisor needs."""


@dataclass(frozen=True)
class OwnSpec:
    """What the settings say of the account's environment. `env` holds digests of the values."""

    activate: str | None
    python: str
    gpus: str
    packages: tuple[str, ...] = ()  # as they are; the account changes them
    ca_bundle: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    installation = ""

    @property
    def told(self) -> dict[str, Any]:
        """What a change of is told in the plan."""
        return asdict(self)


@dataclass(frozen=True)
class OwnDeploy(DirectDeploy):
    """The environment of an account that is looked at and not yet proved."""

    spec: OwnSpec

    @property
    def _what(self) -> Iterator[str]:
        yield plan_line("host", "use", f"Python {dotted(self.known.own.version)}   {self.known.own.python}")
        if self.spec.activate:
            yield plan_line("activate", "", self.spec.activate)

    _unused = (
        "requirements",
        "apt_packages",
        "tensorflow",
        "image",
        "volumes",
        "startup",
        "jupyter",
    )

    def _installing(self) -> Mapping[str, Any]:
        raise AssertionError("nothing is installed")

    def _entering(self) -> Mapping[str, Any]:
        python = self.known.python_set
        if not python:
            return {}
        folder = posixpath.dirname(python)
        return {"python": python, "python_bin": self._here("bin"), "python_folder": folder}


def survey_own(
    machine: Machine, identity: Identity, environ: Mapping[str, str], *, replace: bool = False
) -> OwnDeploy:
    """Look at an account's environment in one exec; nothing is changed.

    Raises ConfigError for `python` and `activate` where they don't hold there, HostError without a Python.
    There is nothing to `replace`: nothing is kept running.
    """
    known = look(machine, identity, environ)
    check_python(known.host, known.own)
    return OwnDeploy(known, _spec(known))


def _spec(known: Known) -> OwnSpec:
    settings, inputs = known.host.settings, known.inputs
    return OwnSpec(
        activate=settings.activate,
        python=known.own.python or "",
        gpus=settings.gpus,
        packages=known.own.packages,
        ca_bundle=inputs.ca_digest,
        env=inputs.env_digests,
    )


def check_python(host: Host, own: OwnReport) -> None:
    """Raise ConfigError when `python` is no Python there, HostError when the account has none."""
    wish = host.settings.python
    if own.python and own.version >= OLDEST:
        return
    if own.version:
        why = f"{own.python} is Python {dotted(own.version)}, and 3.6 or newer is needed"
    elif own.python:
        why = f"{own.python} does not run as a Python"
    elif wish:
        why = f"{host.name} has no such program"
    else:
        why = "there is no python3" + (" after `activate`" if host.settings.activate else "")
    if wish:
        raise ConfigError(f"python = {wish}: {why}", where=host.came_from("python"))
    raise HostError(
        f"engine host: {why}",
        where=host.name,
        hint="Name one (python = PATH), or what brings one (activate = LINE).",
    )
