"""What a check is: a result with one fix line, and the facts that checks look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from orchestrator.errors import OrchError
from orchestrator.facts.changed import ChangedReport
from orchestrator.facts.docker import DockerReport
from orchestrator.facts.gpu import GpuReport
from orchestrator.facts.own import OwnReport
from orchestrator.facts.place import PlaceReport
from orchestrator.facts.system import SystemReport
from orchestrator.facts.tag import TagReport
from orchestrator.inventory import Host


class Level(str, Enum):
    """How a check ended. SKIP: it could not be made, or makes no sense here; the message says which."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Check:
    """One result. A FAIL always has a hint: the one thing to do."""

    name: str
    level: Level
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Examined:
    """What a host answered, and what is wanted of it."""

    host: Host
    system: SystemReport
    gpus: GpuReport
    docker: DockerReport
    place: PlaceReport
    image: str  # the base image that a deploy would use
    tag: TagReport | None = None  # asked only when the image is not on the host
    container: str | None = None  # the name of the caller's own container
    own: OwnReport = field(default_factory=OwnReport)  # of the account, where no container keeps running
    changed: ChangedReport = field(default_factory=ChangedReport)  # in the container, past orch
    noted: Mapping[str, str] = field(default_factory=dict)  # the settings as they are now (since.py)
    unread: OrchError | None = None  # why a file that a setting names can't be read
    asked: tuple[float, float] = (0.0, float("inf"))  # our clock before and after

    def set_in(self, setting: str) -> str:
        """Return where a setting was made as ` (hosts.ini:12)`, "" where it has its default."""
        place = self.host.sources.get(setting)
        return f" ({place})" if place else ""


def ok(name: str, message: str) -> Check:
    """All is well."""
    return Check(name, Level.OK, message)


def warn(name: str, message: str, hint: str | None = None) -> Check:
    """It works, but not as a person would expect."""
    return Check(name, Level.WARN, message, hint)


def fail(name: str, message: str, hint: str) -> Check:
    """It will not work until `hint` is done."""
    return Check(name, Level.FAIL, message, hint)


def skip(name: str, message: str) -> Check:
    """Not looked at."""
    return Check(name, Level.SKIP, message)


def version(text: str | None) -> tuple[int, ...]:
    """Return a dotted version as numbers, () when it is none; what follows the numbers is left out."""
    numbers = []
    for part in (text or "").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
