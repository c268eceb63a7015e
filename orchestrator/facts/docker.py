"""The container engine of a host: whether it can be used, its room, and what of orch it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.facts.disk import Disk, disks
from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section
from orchestrator.facts.trouble import Trouble, explain, missing


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
    paused: bool = False
    made: Mapping[str, Any] = field(default_factory=dict)  # what a person may change in it (made.j2)

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
    kind: str = "docker"  # docker | podman
    client: str | None = None
    server: str | None = None
    root: str | None = None
    disk: Disk | None = None  # of `root`
    arch: str | None = None
    security: frozenset[str] = frozenset()  # rootless, userns, selinux, seccomp, ...
    subids: int | None = None  # rootless podman: how many ids a container can have besides the account's
    limits: bool = True  # whether it can hold a container to `memory` and `cpus`
    runtimes: frozenset[str] = frozenset()
    cdi: tuple[str, ...] = ()  # files that tell engines of NVIDIA's devices
    inside: str = ""  # what nvidia-smi says in the container that was asked about
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
    kind = "podman" if "podman" in lines.text("client") else "docker"
    engine = _podman(info) if kind == "podman" else _docker(info)
    if not engine.server:
        return DockerReport(_trouble(lines, info, kind), kind, version)
    return replace(
        engine,
        client=version,
        disk=next(iter(disks(lines)), None),
        cdi=tuple(lines.texts("cdi")),
        inside="\n".join(lines.texts("inside")),
        containers=tuple(_container(json.loads(t)) for t in lines.texts("container") if t.startswith("{")),
        holders=_holders(lines),
        images={
            name: _image(json.loads(text)) for name, text, *_ in lines.all("image", 2) if text.startswith("{")
        },
    )


DOCKER: Fact[DockerReport] = Fact("docker", "facts/docker.sh.j2", parse)


def _info(lines: Lines) -> dict[str, Any]:
    """Return the JSON of `info`: on one line by Docker, on many by podman, with warnings around it."""
    text = "\n".join(lines.texts("info"))
    begin = re.search(r"^\{", text, re.MULTILINE)
    if not begin:
        return {}
    info: dict[str, Any] = json.JSONDecoder().raw_decode(text, begin.start())[0]
    return info


def _docker(info: Mapping[str, Any]) -> DockerReport:
    options = (str(o).split(",")[0].removeprefix("name=") for o in info.get("SecurityOptions") or ())
    return DockerReport(
        server=info.get("ServerVersion") or None,
        root=info.get("DockerRootDir"),
        arch=info.get("Architecture"),
        security=frozenset(options),
        limits=info.get("CgroupDriver") != "none",
        runtimes=frozenset(info.get("Runtimes") or ()),
    )


def _podman(info: Mapping[str, Any]) -> DockerReport:
    """Read what podman says of itself: it has no server, and does the work under the caller's own account."""
    host, version = info.get("host") or {}, info.get("version") or {}
    said = host.get("security") or {}
    names = {"rootless": "rootless", "selinuxEnabled": "selinux", "seccompEnabled": "seccomp"}
    rootless = bool(said.get("rootless"))
    spans = (host.get("idMappings") or {}).get("uidmap") or ()
    return DockerReport(
        kind="podman",
        server=version.get("Version"),
        root=(info.get("store") or {}).get("graphRoot"),
        arch=host.get("arch"),
        security=frozenset(name for key, name in names.items() if said.get(key)),
        limits=not rootless or host.get("cgroupVersion") != "v1",
        subids=sum(int(s.get("size") or 0) for s in spans[1:]) if rootless else None,
    )


def _trouble(lines: Lines, info: Mapping[str, Any], kind: str) -> Trouble:
    absent = lines.text("missing")
    if absent:
        return missing(absent)
    spoken = [t for t in lines.texts("info") if t.strip() and not t.startswith("{")]
    text = " ".join([*map(str, info.get("ServerErrors") or ()), *spoken]).strip()
    return explain(text or f"{kind} info ended with {lines.text('status') or 'no answer'}", kind)


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
        paused=bool(state.get("Paused")),
        made=found.get("made") or {},
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
