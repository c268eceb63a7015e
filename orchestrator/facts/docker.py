"""The container engine of a host: whether it can be used, its room, and what of orch it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.facts.disk import Disk, disks
from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section


@dataclass(frozen=True)
class Trouble:
    """Why the engine can't be used. `kind`: missing, denied, down, podman or other."""

    kind: str
    text: str
    hint: str


@dataclass(frozen=True)
class Container:
    """A container that orch made, or that has a name like ours."""

    id: str
    name: str
    image: str  # the image's id
    running: bool
    exit_code: int
    labels: Mapping[str, str]
    ports: frozenset[int] = frozenset()  # of the host, that it publishes when it runs

    @property
    def ours(self) -> bool:
        """Whether orch made it."""
        return "orch.person" in self.labels


@dataclass(frozen=True)
class Image:
    """An image that is on the host."""

    id: str
    arch: str
    labels: Mapping[str, str]
    digests: tuple[str, ...] = ()


@dataclass(frozen=True)
class DockerReport:
    """What the engine of a host said. `trouble` None: it can be used."""

    trouble: Trouble | None = None
    client: str | None = None
    server: str | None = None
    root: str | None = None
    disk: Disk | None = None  # of `root`
    arch: str | None = None
    security: frozenset[str] = frozenset()  # rootless, userns, selinux, seccomp, ...
    runtimes: frozenset[str] = frozenset()
    containers: tuple[Container, ...] = ()
    holders: Mapping[int, str] = field(default_factory=dict)  # port of the host -> running container's name
    images: Mapping[str, Image] = field(default_factory=dict)  # by the reference that was asked for

    def container(self, name: str) -> Container | None:
        """Return the container of that name."""
        return next((c for c in self.containers if c.name == name), None)


def parse(section: Section) -> DockerReport:
    """Read the answer of `facts/docker.sh.j2`."""
    lines = Lines(section.text)
    client = re.search(r"\d+(\.\d+)+", lines.text("client"))
    version = client.group() if client else None
    info = _info(lines)
    trouble = _trouble(lines, info)
    if trouble:
        return DockerReport(trouble, version)
    options = (str(o).split(",")[0].removeprefix("name=") for o in info.get("SecurityOptions") or ())
    return DockerReport(
        client=version,
        server=info.get("ServerVersion"),
        root=info.get("DockerRootDir"),
        disk=next(iter(disks(lines)), None),
        arch=info.get("Architecture"),
        security=frozenset(options),
        runtimes=frozenset(info.get("Runtimes") or ()),
        containers=tuple(_container(json.loads(t)) for t in lines.texts("container") if t.startswith("{")),
        holders=_holders(lines),
        images={
            name: _image(json.loads(text)) for name, text, *_ in lines.all("image", 2) if text.startswith("{")
        },
    )


DOCKER: Fact[DockerReport] = Fact("docker", "facts/docker.sh.j2", parse)


def _info(lines: Lines) -> dict[str, Any]:
    found = next((t for t in lines.texts("info") if t.startswith("{")), "{}")
    info: dict[str, Any] = json.loads(found)
    return info


def _trouble(lines: Lines, info: Mapping[str, Any]) -> Trouble | None:
    missing = lines.text("missing")
    if missing:
        return Trouble("missing", f"{missing} is not installed", _MISSING)
    if "podman" in lines.text("client"):
        return Trouble("podman", "docker is podman here", "Install Docker, or set engine = venv.")
    if info.get("ServerVersion"):
        return None
    spoken = [t for t in lines.texts("info") if t.strip() and not t.startswith("{")]
    text = " ".join([*map(str, info.get("ServerErrors") or ()), *spoken]).strip()
    return explain(text or f"docker info ended with {lines.text('status') or 'no answer'}")


_MISSING = "Install Docker (https://docs.docker.com/engine/install), or set engine = venv."


def explain(text: str) -> Trouble:
    """Say what an engine that can't be used is missing. Texts: docker 19.03 to 28."""
    low = text.lower()
    if "permission denied" in low:
        return Trouble(
            "denied",
            "Docker is there, but this account may not use it",
            "As root there: usermod -aG docker ACCOUNT, then log in anew (or engine_command = sudo docker).",
        )
    if "cannot connect" in low or "daemon running" in low or "no such file" in low or "refused" in low:
        return Trouble(
            "down",
            "the Docker daemon does not run",
            "As root there: systemctl start docker (or set engine = venv).",
        )
    if "terminal is required" in low or "password is required" in low:
        return Trouble("denied", "sudo asks for a password", "Allow docker in sudoers with NOPASSWD.")
    return Trouble("other", f"Docker does not answer: {text.splitlines()[0][:200]}", "Try there: docker info")


def _container(found: Mapping[str, Any]) -> Container:
    state = found.get("state") or {}
    bindings = (b for many in (found.get("bindings") or {}).values() for b in many or ())
    return Container(
        id=found["id"],
        name=found["name"].lstrip("/"),
        image=found["image"],
        running=bool(state.get("Running")),
        exit_code=int(state.get("ExitCode") or 0),
        labels=found.get("labels") or {},
        ports=frozenset(int(b["HostPort"]) for b in bindings if str(b.get("HostPort")).isdecimal()),
    )


def _image(found: Mapping[str, Any]) -> Image:
    return Image(found["id"], found["arch"], found.get("labels") or {}, tuple(found.get("digests") or ()))


def _holders(lines: Lines) -> dict[int, str]:
    """Return who publishes which port: `127.0.0.1:2222->22/tcp, 0.0.0.0:6006-6007->6006-6007/tcp`."""
    found: dict[int, str] = {}
    for _, name, ports, *_ in lines.all("ps", 3):
        for first, last in re.findall(r":(\d+)(?:-(\d+))?->", ports):
            found.update(dict.fromkeys(range(int(first), int(last or first) + 1), name))
    return found
