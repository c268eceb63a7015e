"""What makes a deploy impossible before it begins, each with what to do."""

from __future__ import annotations

import json

from orchestrator.container.ground import unseen
from orchestrator.container.identity import Identity, check_owner
from orchestrator.container.spec import Facts
from orchestrator.errors import ConfigError, HostError, NotPermitted, Refused
from orchestrator.facts.docker import Container, DockerReport
from orchestrator.facts.place import PlaceReport
from orchestrator.facts.system import SystemReport
from orchestrator.facts.trouble import Trouble, explain
from orchestrator.inventory import Host

OLDEST_DOCKER = (19, 3)
"""The first with `--gpus`, in client and server."""

OLDEST_PODMAN = (4, 1)
"""The first that gives devices by their CDI names."""


def engine_error(host: Host, trouble: Trouble, account: str) -> HostError:
    """Return the error for an engine that `account` can't use."""
    kind = NotPermitted if trouble.kind == "denied" else HostError
    return kind(trouble.text, where=host.name, hint=hint_for(host, trouble, account))


def hint_for(host: Host, trouble: Trouble, account: str) -> str:
    """Return what to do, with the account and the engine's command in it."""
    engine = host.settings.container_command[-1]
    return trouble.hint.replace("ACCOUNT", account).replace("ENGINE", f"/usr/bin/{engine}")


def engine_trouble(host: Host, docker: DockerReport) -> Trouble | None:
    """Return why the engine can't be used as the settings want it, or None."""
    wanted = host.settings.engine if host.settings.in_container else docker.kind
    if docker.client and docker.kind != wanted:
        command = " ".join(host.settings.container_command)
        return Trouble("other", f"{command} is {docker.kind} here", f"Set engine = {docker.kind}.")
    if docker.trouble:
        return docker.trouble
    if docker.kind == "podman" and docker.subids == 0:
        return explain("no subuid ranges", "podman")
    return None


def check_engine(host: Host, facts: Facts) -> None:
    """Raise HostError or NotPermitted when the engine can't be used, or is no place for this image."""
    docker = facts.docker
    trouble = engine_trouble(host, docker)
    if trouble:
        raise engine_error(host, trouble, facts.system.user)
    _check_version(host, docker)
    if docker.arch not in (None, "x86_64", "amd64") and not _own_base(host):
        raise HostError(
            f"TensorFlow's own images are for x86_64, this host is {docker.arch}",
            where=host.name,
            hint="Set `image` to one for it, or engine = venv.",
        )


def _check_version(host: Host, docker: DockerReport) -> None:
    """Raise HostError when client or server can't give GPUs to a container."""
    if docker.kind == "podman":
        if _numbers(docker.client or "") < OLDEST_PODMAN:
            raise HostError(
                f"podman is {docker.client}, and 4.1 is the first that can give GPUs to a container",
                where=host.name,
                hint="Update podman there, or set engine = venv.",
            )
        return
    for what, version in (("client", docker.client), ("server", docker.server)):
        if version and _numbers(version) < OLDEST_DOCKER:
            raise HostError(
                f"the Docker {what} is {version}, and 19.03 is the first that can give GPUs to a container",
                where=host.name,
                hint="Update Docker there, or set engine = venv.",
            )


def _own_base(host: Host) -> bool:
    settings = host.settings
    return bool(settings.image or settings.dockerfile or settings.build_context)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


ROOM_MB = 1
"""Below it nothing can be written at all; doctor asks for more."""


def check_root(host: Host, place: PlaceReport, system: SystemReport) -> None:
    """Raise ConfigError when the folder can't be made or written, HostError when there is no room."""
    problem = place.mount.problem(place.account)
    hint = f"Set `root` to another folder ({host.came_from('root')})."
    if problem:
        raise ConfigError(f"root {host.settings.root} can't be used: {problem}", where=host.name, hint=hint)
    disk = system.root_disk
    if disk and disk.free_mb < ROOM_MB:
        raise HostError(f"no space is left on the disk of {disk.path}", where=host.name, hint=hint)


def check_seen(host: Host, facts: Facts) -> None:
    """Raise ConfigError when the engine can't see the project's folder, though the account can."""
    why = unseen(facts.place.mount, facts.system, facts.docker)
    if why:
        hint = f"Set `root` to another folder ({host.came_from('root')}), or engine = venv."
        raise ConfigError(f"root {host.settings.root} can't be used: {why}", where=host.name, hint=hint)


def check_place(host: Host, identity: Identity, place: PlaceReport) -> None:
    """Raise Refused when the project's folder is another person's, project's or folder's, deployed or not."""
    try:
        recorded = json.loads(place.owned or "null")
    except ValueError:  # it is only a safeguard, and the next deploy writes it anew
        return
    if isinstance(recorded, dict):
        check_owner(identity, recorded, where=host.name)


def check_ours(host: Host, identity: Identity, old: Container) -> None:
    """Raise Refused when a container of our name is not ours: another tool's, person's or project's."""
    if not old.ours:
        raise Refused(
            f"a container named {old.name} is there that orch did not make, and it is not touched",
            where=host.name,
            hint="Rename it, or set another `project` in hosts.ini.",
        )
    labels = {key: old.labels.get(f"orch.{key}", "") for key in ("person", "project", "folder")}
    check_owner(identity, labels, where=host.name)


def check_volumes(host: Host, place: PlaceReport) -> None:
    """Raise ConfigError when a volume's source is not on the host: Docker would make it, empty and root's."""
    for source in place.sources:
        if source.kind == "missing":
            raise ConfigError(
                f"volume {source.path} does not exist on {host.name}, or this account may not look there",
                where=host.came_from("volumes"),
                hint="Make it there, or correct `volumes`.",
            )
