"""What is known of a host before a deploy without a daemon: facts, what is recorded, what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.container.deploy import LOOK_DEADLINE, common_values
from orchestrator.container.direct.apptainer_image import image_values
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity
from orchestrator.container.inputs import Inputs, read_inputs
from orchestrator.container.refusals import check_place, check_root
from orchestrator.container.spec import wanted_gpus
from orchestrator.errors import ConfigError
from orchestrator.facts.gpu import GPUS, GpuReport
from orchestrator.facts.own import OWN, OwnReport
from orchestrator.facts.place import PLACE, PlaceReport
from orchestrator.facts.question import ask
from orchestrator.facts.system import SYSTEM, SystemReport
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import on_host
from orchestrator.inventory import Host


@dataclass(frozen=True)
class Known:
    """A host as it answered, and what this machine brings."""

    host: Host
    identity: Identity
    inputs: Inputs
    system: SystemReport
    gpus: GpuReport
    place: PlaceReport
    own: OwnReport

    @property
    def path(self) -> str:
        """The project's folder, absolute."""
        return self.place.path

    @property
    def recorded(self) -> Environment | None:
        """What is deployed; None when nothing is, or its record makes no sense."""
        return Environment.read(self.place.environment)

    # Installations

    def folder(self, installation: str) -> str:
        """Return where an installation is or will be: beside one whose packages were changed by hand."""
        mine = [whole.removesuffix("/whole") for whole in self.place.venvs]
        mine = [f for f in mine if f.rpartition("/")[2].partition("-")[0] == installation]
        sound = [f for f in mine if not self.drift(f"{f}/whole")]
        if sound:
            return sound[-1]
        number = f"-{len(mine) + 1}" if mine else ""
        return f"{self.path}/venv/{installation}{number}"

    def drift(self, whole: str | None) -> tuple[str, ...]:
        """Return what was installed or removed by hand in an installation: `+wandb-0.17`."""
        return tuple(change for mark, change in self.place.venv_changes if mark == whole)

    def leftovers(self, keep: str) -> tuple[str, ...]:
        """Return the other installations in which no run lives."""
        used = {keep.rpartition("/")[2], *(run.installation for run in self.place.live)}
        folders = (whole.removesuffix("/whole") for whole in self.place.venvs)
        return tuple(folder for folder in folders if folder.rpartition("/")[2] not in used)

    # GPUs

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """The UUIDs of the GPUs that the settings name; None where they are all of the host's."""
        wish = self.host.settings.gpus
        if wish in ("auto", "all"):
            return None
        there = [g for g in self.gpus.gpus if g.uuid and not g.fault]
        if wish == "none":
            return ()
        if wish.isdecimal():
            return tuple(str(g.uuid) for g in there[: int(wish)])
        names = wish.split(",")
        return tuple(str(g.uuid) for g in there if str(g.index) in names or g.uuid in names)

    @property
    def visible(self) -> str | None:
        """CUDA_VISIBLE_DEVICES of commands that are no run; None where it is left as it is."""
        return None if self.chosen is None else ",".join(self.chosen)

    @property
    def gpu_count(self) -> int:
        """How many GPUs must be seen from inside."""
        if self.chosen is not None:
            return len(self.chosen)
        return sum(not g.fault for g in self.gpus.gpus)

    @property
    def python_set(self) -> str | None:
        """The path of the Python that engine host is to use; None where it is the account's python3."""
        settings = self.host.settings
        return self.own.python if settings.engine == "host" and settings.python else None


def look(machine: Machine, identity: Identity, environ: Mapping[str, str]) -> Known:
    """Ask a host all that a plan needs, in one exec.

    Raises ConfigError for settings, and for `activate` when it fails there; Refused, HostError.
    """
    host = machine.host
    inputs = read_inputs(host, environ)
    values = {
        **common_values(host, identity.place(host)),
        "extra_python": extra_python(host),
        **own_values(host),
    }
    answers = ask(machine, SYSTEM, GPUS, PLACE, OWN, values=values, deadline=LOOK_DEADLINE)
    known = Known(
        host, identity, inputs, answers.of(SYSTEM), answers.of(GPUS), answers.of(PLACE), answers.of(OWN)
    )
    check_place(host, identity, known.place)
    check_root(host, known.place, known.system)
    check_activation(host, known.own)
    wanted_gpus(host, known.gpus)
    return known


def own_values(host: Host) -> dict[str, Any]:
    """Return the values of the question `own`."""
    settings = host.settings
    python = settings.python if settings.engine == "host" and settings.python else "python3"
    values = {"activate": settings.activate, "own_python": on_host(python).text}
    return {**values, "engine": settings.engine, **image_values(host)}


def extra_python(host: Host) -> str | None:
    """Return the Python that is looked at besides those that are found, as a shell word."""
    python = host.settings.python or ""
    return on_host(python).text if "/" in python else None


def check_activation(host: Host, own: OwnReport) -> None:
    """Raise ConfigError with the setting's place when its line fails on the host."""
    line = host.settings.activate or ""
    if not own.status:
        return
    said = f": {own.said}" if own.said else ""
    hint = None
    if not own.bash:
        hint = f"There is no bash on {host.name}: it ran by sh, which knows no `source`."
    raise ConfigError(
        f"activate: `{line}` ended with status {own.status} on {host.name}{said}",
        where=host.came_from("activate"),
        hint=hint,
    )
