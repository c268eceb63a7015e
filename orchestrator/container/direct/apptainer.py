"""A deploy by apptainer: an image without a daemon, in which each command is a process of the account.

What commands see is what they see in a container: /orch, /workspace, a home of the project's own and the
volumes, nothing of the account's home. /tmp, /dev, processes and the network are the host's: a run's
supervisor is then found, judged and ended as on the host (--containall would give it other process ids).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestrator.container.direct.apptainer_image import (
    HOW_TO_HAVE,
    PROGRAM,
    image_of,
    image_values,
    is_path,
)
from orchestrator.container.direct.base import DirectDeploy
from orchestrator.container.direct.known import Known, look
from orchestrator.container.identity import Identity
from orchestrator.container.proof import Seen
from orchestrator.container.refusals import check_volumes
from orchestrator.container.spec import volumes_of
from orchestrator.container.telling import plan_line
from orchestrator.errors import ConfigError, HostError
from orchestrator.hosts.base import Machine
from orchestrator.render import digest, source
from orchestrator.units import how_many, size


def _told(stamp: str) -> str:
    """Return size and time of a file (SIZE.TIME, as own.sh.j2 has them) for people."""
    length, _, changed = stamp.partition(".")
    return f"{size(int(length))}, {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(int(changed)))}"


_VERSION = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True)
class ApptainerSpec:
    """What commands run in. `env` holds digests of the values."""

    program: str
    image: str  # an address to pull (docker://...), or a path on the host
    file: str | None  # size and time of that path
    gpus: str
    requirements: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()  # source:target[:ro], absolute
    activate: str | None = None
    ca_bundle: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """What a change of is told in the plan: a file of the same name may be another one."""
        found = asdict(self)
        stamp = found.pop("file")
        return {**found, "image": f"{self.image} ({_told(stamp)})" if stamp else self.image}

    @property
    def pulled(self) -> bool:
        """Whether the image is brought to the project's folder."""
        return not is_path(self.image)

    @property
    def installation(self) -> str:
        """What two equal installations share: the name of a folder; empty where nothing is installed."""
        if not self.pulled and not self.requirements:
            return ""
        return digest(self.image, self.file or "", *self.requirements)[:12]


@dataclass(frozen=True)
class ApptainerDeploy(DirectDeploy):
    """An image for apptainer that is planned and not yet proved."""

    spec: ApptainerSpec

    @property
    def _what(self) -> Iterator[str]:
        verb = "use" if self._there or not self.spec.pulled else "pull"
        release = _VERSION.search(self.known.own.release)
        name = f"{self.spec.program} {release[0]}" if release else self.spec.program
        yield plan_line("image", verb, f"{self.spec.image}   {name}")
        if self.spec.requirements:
            verb = "use" if self._there else "install"
            count = how_many(len(self.spec.requirements), "package")
            yield plan_line("packages", verb, f"{count}   {self.folder}")
        if self.spec.volumes:
            yield plan_line("volumes", "", "   ".join(self.spec.volumes))

    _unused = ("apt_packages", "startup", "jupyter", "python")

    def _installing(self) -> Mapping[str, Any]:
        spec = self.spec
        return {
            "how": "install_apptainer",
            "what": " ".join(([spec.image] if spec.pulled else []) + list(spec.requirements)),
            "program": spec.program,
            "source": spec.image,
            "pull": spec.pulled,
            "image": spec.image,
            "requirements": spec.requirements,
            "constraints": (),
            "own_constraints": source("container/constraints.py") or "",
            "inside": self._packages,
            "prefix": self._prefix,
            "run": self._run,
        }

    def _entering(self) -> Mapping[str, Any]:
        spec = self.spec
        image = f"{self.folder}/image.sif" if spec.pulled else spec.image
        found: dict[str, Any] = {"run": self._run, "image": image, "prefix": self._prefix}
        if spec.requirements:
            found["more"] = {
                "PYTHONUSERBASE": self._packages,
                "PREPEND_PATH": f"{self._packages}/bin",
            }
        if self.known.inputs.ca_bundle:
            found["ca"] = f"/orch/hosts/{self.known.place.machine}/ca.crt"
        return found

    def _inside(self, seen: Seen) -> Mapping[str, Any]:
        spec = self.spec
        found = {"home": seen.home, "dir": "/orch", "workspace": "/workspace", "image": spec.image}
        return found if spec.installation else {**found, "whole": spec.image}

    _workspace = "/workspace"

    @property
    def _prefix(self) -> str:
        """What the program takes from variables for the inside; apptainer may be called singularity."""
        return "APPTAINERENV_" if "apptainer" in self.known.own.release else "SINGULARITYENV_"

    @property
    def _packages(self) -> str:
        """Where `requirements` are, as seen from inside: pip's place for a user's own packages."""
        return f"/orch/venv/{self.folder.rpartition('/')[2]}"

    @property
    def _run(self) -> tuple[str, ...]:
        """The words before the image, without the folder to start in."""
        place, home = self.known.path, self.known.system.home or "/root"
        binds = (f"{place}:/orch", f"{place}/workspace:/workspace", *self.spec.volumes)
        words = [self.spec.program, "--quiet", "exec", "--cleanenv", "--home", f"{place}/home:{home}"]
        if self.known.gpu_count:
            words.append("--nv")
        return (*words, *(word for bind in binds for word in ("--bind", bind)))


def survey_apptainer(
    machine: Machine, identity: Identity, environ: Mapping[str, str], *, replace: bool = False
) -> ApptainerDeploy:
    """Ask a host in one exec and plan; nothing is changed.

    Raises ConfigError for an image or a volume that is not there, HostError without apptainer.
    There is nothing to `replace`: nothing is kept running.
    """
    known = look(machine, identity, environ)
    check_there(known)
    check_volumes(known.host, known.place)
    return ApptainerDeploy(known, _spec(known))


def check_there(known: Known) -> None:
    """Raise HostError when there is no apptainer, ConfigError when there is no such image."""
    host, own = known.host, known.own
    if not own.program:
        raise HostError(
            f"{image_values(host)['program']} is not installed",
            where=host.name,
            hint=HOW_TO_HAVE,
        )
    image = host.settings.image or ""
    if is_path(image) and not image.startswith(("/", "~/")):
        raise ConfigError(
            f"image: {image}: an absolute path on {host.name} is needed, or one that begins with ~/",
            where=host.came_from("image"),
        )
    if is_path(image) and own.image is None:
        raise ConfigError(f"image: {host.name} has no {image}", where=host.came_from("image"))


def _spec(known: Known) -> ApptainerSpec:
    settings, inputs = known.host.settings, known.inputs
    image = image_of(known.host, gpus=bool(known.gpu_count))
    if image.startswith("~/"):
        image = known.system.home + image[1:]
    return ApptainerSpec(
        program=known.own.program or PROGRAM,
        image=image,
        file=known.own.image,
        gpus=settings.gpus,
        requirements=inputs.requirements,
        volumes=volumes_of(known.host, known.place),
        activate=settings.activate,
        ca_bundle=inputs.ca_digest,
        env=inputs.env_digests,
    )
