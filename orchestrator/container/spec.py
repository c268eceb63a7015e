"""The wanted container as a frozen value, made of settings and facts. Nothing here asks a host."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from orchestrator.container.cluster_ports import INFINIBAND, published, takes_part
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity
from orchestrator.container.inputs import Inputs, short_digest
from orchestrator.errors import HostError
from orchestrator.facts.docker import DockerReport
from orchestrator.facts.gpu import GpuReport
from orchestrator.facts.place import PlaceReport
from orchestrator.facts.system import SystemReport
from orchestrator.inventory import Host, Settings
from orchestrator.render import digest
from orchestrator.units import how_many

TENSORFLOW = "2.9.3"
"""The version that the default image holds."""

SSH_PORT = 2222
"""Where `ssh_port = auto` begins to look."""

ORCH_UID = 1000
"""The uid and gid of user `orch`, who stands for an account that is root."""

STOP_SECONDS = 45
"""Seconds from `docker stop` to SIGKILL: a supervisor's grace is 30, and its record must be written."""


@dataclass(frozen=True)
class Facts:
    """What a host answered before a deploy."""

    system: SystemReport
    gpus: GpuReport
    docker: DockerReport
    place: PlaceReport

    @property
    def deployed(self) -> Environment | None:
        """What is deployed there, as a deploy wrote it down; None for nothing, or for what makes no sense."""
        return Environment.read(self.place.environment)


@dataclass(frozen=True)
class User:
    """The login user of a container."""

    name: str
    uid: int
    gid: int
    home: str

    def __str__(self) -> str:
        return f"{self.name} ({self.uid})"


@dataclass(frozen=True)
class ContainerSpec:
    """Everything that a container is made of. Field by field it is compared with what runs.

    Values of the environment are only here as digests, so that it may stand in a label.
    """

    name: str
    image: str  # the base, as it is configured; a Dockerfile: `./` and its path in the build context
    recipe: str  # digest of all that the image is built of
    packages: tuple[str, ...]
    apt_packages: tuple[str, ...]
    user: User
    gpus: str  # none, all, a count, or indices or UUIDs
    shm_size: str
    memory: str | None
    cpus: str | None
    network: str
    ssh_port: int | None  # as wished; None: auto
    publish: tuple[str, ...]
    cluster: str | None  # ADDRESS:PORTS
    volumes: tuple[str, ...]  # source:target[:ro], absolute
    place: str
    hostname: str
    env: Mapping[str, str] = field(default_factory=dict)  # name -> digest of its value
    source: Mapping[str, str] = field(default_factory=dict)  # digests of a Dockerfile and its context
    startup: str | None = None  # digest
    jupyter: bool = False
    options: tuple[str, ...] = ()  # what this host's engine needs besides
    engine: str = "docker"  # docker | podman

    def text(self) -> str:
        """Return it as one line of JSON, for the label orch.spec."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def digest(self) -> str:
        """What two equal specs share."""
        return digest(self.text())


def container_spec(
    host: Host, identity: Identity, facts: Facts, inputs: Inputs, recipe: str
) -> ContainerSpec:
    """Put together what `host` should run. Raises HostError when the host can't have it."""
    settings = host.settings
    return ContainerSpec(
        name=identity.container,
        image=f"./{inputs.source.name}" if inputs.source else base_image(host, facts.gpus),
        recipe=recipe,
        packages=inputs.requirements,
        apt_packages=settings.apt_packages,
        user=login_user(settings, facts.system, facts.docker),
        gpus=wanted_gpus(host, facts.gpus),
        shm_size=settings.shm_size,
        memory=settings.memory,
        cpus=settings.cpus,
        network=settings.network,
        ssh_port=settings.ssh_port,
        publish=settings.publish,
        cluster=published(host),
        volumes=volumes_of(host, facts.place),
        place=facts.place.path,
        hostname=facts.place.machine,
        env=inputs.env_digests,
        source=inputs.source.digests if inputs.source else {},
        startup=short_digest(inputs.startup) if inputs.startup is not None else None,
        jupyter=settings.jupyter,
        options=_options(host, facts),
        engine=facts.docker.kind,
    )


def login_user(settings: Settings, system: SystemReport, docker: DockerReport) -> User:
    """Return who logs in: the account's own uid, but never 0 unless that is the person's or asked for.

    In rootless Docker uid 0 is the account; podman can keep the account's uid.
    """
    mapped = "rootless" in docker.security and docker.kind != "podman"
    if settings.container_user == "root" or mapped:
        return User("root", 0, 0, "/root")
    if system.uid == 0:
        uid, gid, name = ORCH_UID, ORCH_UID, "orch"
    else:
        uid, gid, name = system.uid, system.gid, system.user
    name = settings.container_user or re.sub(r"[^a-z0-9_-]", "-", name.rpartition("\\")[2].lower())
    if not re.match(r"[a-z_]", name) or name == "root":
        name = "orch"
    return User(name[:32], uid, gid, f"/home/{name[:32]}")


def wanted_gpus(host: Host, report: GpuReport) -> str:
    """Return what of GPUs the container gets: none, all, a count, or names. Raises HostError when too few."""
    wish = host.settings.gpus
    there = len(report.gpus)
    if wish == "auto":
        return "all" if there else "none"
    if wish == "none":
        return wish
    asked = int(wish) if _is_count(wish) else 1
    names = [] if wish == "all" or _is_count(wish) else wish.split(",")
    missing = [n for n in names if n.isdecimal() and not any(g.index == int(n) for g in report.gpus)]
    if there < asked or missing:
        had = how_many(there, "GPU") if there else report.problem or "no GPU"
        what = f"GPU {','.join(missing)}" if missing else f"gpus = {wish}"
        raise HostError(
            f"{what} is asked for, the host has {had}",
            where=host.name,
            hint=f"Change `gpus` ({host.came_from('gpus')}).",
        )
    return wish


def expected_gpus(spec: ContainerSpec, report: GpuReport) -> int:
    """Return how many GPUs must be seen from inside."""
    if spec.gpus in ("none", "all"):
        return sum(not g.fault for g in report.gpus) if spec.gpus == "all" else 0
    return int(spec.gpus) if _is_count(spec.gpus) else len(spec.gpus.split(","))


def _is_count(wish: str) -> bool:
    return wish.isdecimal()


def base_image(host: Host, report: GpuReport) -> str:
    """Return the image to build on: as set, else TensorFlow's own, `-gpu` where GPUs are used."""
    if host.settings.image:
        return host.settings.image
    wants = host.settings.gpus != "none" and bool(report.gpus)
    return tensorflow_image(host, gpus=wants)


def tensorflow_image(host: Host, *, gpus: bool) -> str:
    """Return the name of TensorFlow's own image, in the version that is set."""
    return f"tensorflow/tensorflow:{host.settings.tensorflow or TENSORFLOW}{'-gpu' * gpus}"


def volumes_of(host: Host, place: PlaceReport) -> tuple[str, ...]:
    """Return `source:target[:ro]` of each volume, its source absolute."""
    paths = {s.written: s.path for s in place.sources}
    return tuple(
        f"{paths.get(v.source, v.source)}:{v.target}{':ro' * v.read_only}" for v in host.settings.volumes
    )


def _options(host: Host, facts: Facts) -> tuple[str, ...]:
    """Return what the engine's kind asks for: mounts can else not be written (userns) or read (SELinux).

    Podman would make the account the container's first user, and pass on the account's proxies.
    """
    docker = facts.docker
    found = ["--userns=host"] if "userns" in docker.security else []
    if docker.kind == "podman":
        keeping = ("--userns=keep-id", "--user=0:0") if "rootless" in docker.security else ()
        found += [*keeping, "--http-proxy=false"]
    if "selinux" in docker.security or facts.system.selinux == "Enforcing":
        found.append("--security-opt=label=disable")
    if facts.system.infiniband and takes_part(host.settings):
        found.append(f"--device={INFINIBAND}")
    return tuple(found)
