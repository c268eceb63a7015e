"""A deploy by venv that keeps to image.lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.container.direct.venv_spec import VenvSpec
from orchestrator.container.image.copying.cargo import processor
from orchestrator.container.lock import Lock, Locked, refuse
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script
from orchestrator.units import dotted

_BROUGHT = ("pip", "wheel", "pkg-resources")
"""What a Python puts into its venvs, or uv, before anything is installed: the host's, and no training's."""


@dataclass(frozen=True)
class VenvLock:
    """What image.lock says of the venv of one host."""

    path: Path
    locked: Locked
    host: str

    def differs(self, packages: Sequence[str]) -> list[str]:
        """Return in words what is other than locked."""
        return list(self.locked.packages_differ(_counting(packages)))

    def check(self, packages: Sequence[str]) -> None:
        """Raise ConfigError where a venv holds other packages."""
        refuse(self.path, self.host, self.differs(packages))


def venv_lock(lock: Lock, host: str, spec: VenvSpec) -> VenvLock:
    """Return what is locked for a venv. Raises ConfigError where nothing is, or another one is asked for."""
    locked = lock.of(_kind(spec), host)
    refuse(lock.path, host, list(locked.recipe_differs("", "", spec.requirements)))
    return VenvLock(lock.path, locked, host)


def lock_venv(spec: VenvSpec, packages: Sequence[str], env: str) -> Locked:
    """Return what a venv that is deployed is made of."""
    return Locked(_kind(spec), env=env, requirements=spec.requirements, packages=_counting(packages))


def packages_in(machine: Machine, folder: str) -> tuple[str, ...]:
    """Return what an installation holds. Raises HostError where it has no list."""
    list_of = Command.of("cat", f"{folder}/packages.txt")
    return tuple(machine.ask(Script("packages", list_of.shell())).text.split())


def _counting(packages: Sequence[str]) -> tuple[str, ...]:
    return tuple(p for p in packages if p.partition("==")[0] not in _BROUGHT)


def _kind(spec: VenvSpec) -> str:
    python, processor_of = dotted(spec.version[:2]), processor(spec.platform.partition(" ")[0])
    return f"venv {processor_of} {spec.tensorflow[0]} python {python}"
