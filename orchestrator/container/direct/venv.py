"""A deploy by venv: a Python of the host, a TensorFlow that it can run, in the project's folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.container.direct.base import DirectDeploy
from orchestrator.container.direct.known import look
from orchestrator.container.direct.venv_locked import VenvLock, lock_venv, packages_in, venv_lock
from orchestrator.container.direct.venv_spec import VenvSpec, venv_spec
from orchestrator.container.engine import Environment
from orchestrator.container.ground import VENV_NO_EXEC
from orchestrator.container.identity import Identity
from orchestrator.container.image.build import Told
from orchestrator.container.image.pins import pinned
from orchestrator.container.lock import Lock, Locked
from orchestrator.container.telling import plan_line
from orchestrator.errors import ConfigError
from orchestrator.hosts.base import Machine
from orchestrator.units import dotted, how_many


@dataclass(frozen=True)
class VenvDeploy(DirectDeploy):
    """A venv of one host that is planned and not yet made."""

    spec: VenvSpec
    lock: VenvLock | None = None  # what has to be in it

    @property
    def _what(self) -> Iterator[str]:
        spec = self.spec
        more = f" + {how_many(len(spec.requirements), 'package')}" if spec.requirements else ""
        cuda = " + CUDA" if spec.cuda else ""
        verb = "use" if self._there else "install"
        by = "" if self._there or not self.known.system.uv else "   by uv"
        fetched = "" if spec.python else " (uv fetches it: none here fits)"
        text = f"Python {dotted(spec.version)}{fetched}   {spec.tensorflow[0]}{cuda}{more}{by}"
        yield plan_line("venv", verb, text)
        yield plan_line("folder", "", self.folder)
        if self.lock and not self._there:
            count = how_many(len(self.lock.locked.packages), "package")
            yield plan_line("note", "", f"{count} as {self.lock.path.name} has them")

    def _notes(self) -> Iterator[str]:
        yield from super()._notes()
        recorded = self.known.recorded
        if recorded and recorded.wanted.get("locked") and not self.lock:
            yield "what is deployed keeps to image.lock, and this would not: see --locked"

    _unused = ("volumes", "startup", "apt_packages", "image")

    def _installing(self) -> Mapping[str, Any]:
        spec = self.spec
        return {
            "how": "install_venv",
            "what": " ".join(spec.tensorflow[:1] + spec.requirements),
            "python": spec.python,
            "version": dotted(spec.version),
            "pip": spec.pip,
            "uv": self.known.system.uv,
            "requirements": (*spec.tensorflow, *spec.requirements),
            "constraints": (*spec.constraints, *pinned(spec.locked)),
        }

    def _install(self, machine: Machine, told: Told) -> None:
        super()._install(machine, told)
        if self.lock:
            self.lock.check(packages_in(machine, self.folder))

    def locked(self, machine: Machine, deployed: Environment) -> Locked:
        """Return what is deployed, to be locked."""
        folder = (deployed.whole or "").removesuffix("/whole")
        return lock_venv(self.spec, packages_in(machine, folder), deployed.env)

    def _entering(self) -> Mapping[str, Any]:
        return {"venv": self.folder, "cuda": self.spec.cuda}


def survey_venv(
    machine: Machine,
    identity: Identity,
    environ: Mapping[str, str],
    *,
    replace: bool = False,
    lock: Lock | None = None,
) -> VenvDeploy:
    """Ask a host in one exec and plan its venv; nothing is changed. Raises ConfigError or HostError.

    There is nothing to `replace`: a run keeps the venv that it began in.
    """
    known = look(machine, identity, environ)
    if not known.place.mount.executes:
        hint = f"Set `root` to another folder ({known.host.came_from('root')}), or engine = docker."
        raise ConfigError(VENV_NO_EXEC, where=known.host.name, hint=hint)
    spec = venv_spec(known.host, known.system, known.inputs, gpus=bool(known.gpu_count))
    if not lock:
        return VenvDeploy(known, spec)
    return _kept_to(machine, VenvDeploy(known, spec, lock=venv_lock(lock, known.host.name, spec)))


def _kept_to(machine: Machine, deploy: VenvDeploy) -> VenvDeploy:
    """Use a venv that is there where it is what is locked; else make one of exactly these packages."""
    assert deploy.lock
    if deploy._there and not deploy.lock.differs(packages_in(machine, deploy.folder)):
        return deploy
    exact = dataclasses.replace(deploy.spec, locked=deploy.lock.locked.packages)
    deploy = dataclasses.replace(deploy, spec=exact)
    if deploy._there and deploy.lock:
        deploy.lock.check(packages_in(machine, deploy.folder))
    return deploy
