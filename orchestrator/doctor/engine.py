"""Checks on the container engine: usable, new enough, room for an image, the image, the ports."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.container.refusals import OLDEST_DOCKER, OLDEST_PODMAN, engine_trouble, hint_for
from orchestrator.container.spec import SSH_PORT
from orchestrator.doctor.check import Check, Examined, fail, ok, skip, version, warn
from orchestrator.facts.disk import Disk
from orchestrator.units import size

IMAGE_ROOM_MB, IMAGE_ROOM_WARN_MB = 10_000, 20_000
"""Room for an image that is still to be pulled: TensorFlow's -gpu is 2.7 GB packed, 6 GB unpacked."""

ROOM_MB, ROOM_WARN_MB = 1_000, 10_000
"""Room when the image is there: what the container itself writes."""

INODES = 100_000
"""Files that an image and the packages on it may take."""


def checks(seen: Examined) -> Iterator[Check]:
    """Check the engine; where it can't be used, nothing more is asked of it."""
    trouble = engine_trouble(seen.host, seen.docker)
    if trouble:
        name = seen.host.settings.engine
        yield fail(name, trouble.text, hint_for(seen.host, trouble, seen.system.user))
        return
    yield _podman(seen) if seen.docker.kind == "podman" else _versions(seen)
    yield from _lingering(seen)
    yield from _room(seen)
    yield _image(seen)
    yield _ssh_port(seen)
    yield from _published(seen)


def _versions(seen: Examined) -> Check:
    client, server = seen.docker.client, seen.docker.server
    kind = " (rootless)" if "rootless" in seen.docker.security else ""
    said = f"client {client}, server {server}{kind}"
    if not version(client) or not version(server):
        return warn("docker", f"{said}: 19.03 or newer is needed")
    if min(version(client), version(server)) < OLDEST_DOCKER:
        return fail("docker", said, "Update Docker to 19.03 or newer, client and server both.")
    return ok("docker", said if client != server else f"{server}{kind}")


def _podman(seen: Examined) -> Check:
    said = f"{seen.docker.server}{' (rootless)' if 'rootless' in seen.docker.security else ''}"
    if version(seen.docker.server) < OLDEST_PODMAN:
        return fail("podman", f"{said}: 4.1 or newer is needed", "Update podman there.")
    return ok("podman", said)


def _lingering(seen: Examined) -> Iterator[Check]:
    """Check that what runs under the account's own systemd outlives its last session."""
    if "rootless" in seen.docker.security and seen.system.linger is False:
        yield fail(
            "sessions",
            "systemd ends the containers of this account when its last session ends: a run would die",
            f"As {seen.system.user} or root there: loginctl enable-linger {seen.system.user}.",
        )


def _has_image(seen: Examined) -> bool:
    return seen.image in seen.docker.images


def _room(seen: Examined) -> Iterator[Check]:
    disk = seen.docker.disk
    if disk is None:
        yield skip("room", f"the room in {seen.docker.root or 'the data root'} is not known")
        return
    name = seen.docker.kind
    prune = f"{name} system prune"
    least, wished = (ROOM_MB, ROOM_WARN_MB) if _has_image(seen) else (IMAGE_ROOM_MB, IMAGE_ROOM_WARN_MB)
    where = "Docker's data-root" if name == "docker" else "podman's graphroot (storage.conf)"
    yield room("room", disk, least, wished, f"{prune}, or move {where} to a larger disk.")
    if disk.inodes_free is not None and disk.inodes_free < INODES:
        hint = f"Delete files on the disk of {disk.path} ({prune})."
        yield fail("inodes", f"{disk.inodes_free} left in {disk.path}: an image needs {INODES}", hint)


def room(name: str, disk: Disk, least: int, wished: int, hint: str) -> Check:
    """Compare the room on a disk with what is needed and what is wished, in MiB."""
    said = f"{size(disk.free_mb * 2**20)} free in {disk.path}"
    if disk.free_mb < least:
        return fail(name, f"{said}: {least / 1000:g} GB are needed", hint)
    if disk.free_mb < wished:
        return warn(name, f"{said}: that is little", hint)
    return ok(name, said)


def _image(seen: Examined) -> Check:
    if _has_image(seen):
        return ok("image", f"{seen.image} is there")
    settings = seen.host.settings
    if settings.dockerfile or settings.build_context:
        return ok("image", f"a deploy builds it of {settings.dockerfile or settings.build_context}")
    if seen.image.startswith("sha256:"):
        hint = f"See there: {seen.docker.kind} images --no-trunc, and correct image{seen.set_in('image')}."
        return fail("image", f"there is no image {seen.image} on the host", hint)
    tag = seen.tag
    if tag is None or tag.found is None:
        why = f" ({tag.said[:120]})" if tag and tag.said else ""
        return skip("image", f"{seen.image} is not there, and its registry could not be asked{why}")
    if tag.found:
        return ok("image", f"{seen.image} can be pulled")
    login = f"{seen.docker.kind} login"
    hint = f"Correct image or tensorflow{seen.set_in('image')}; if it is private: {login} there."
    return fail("image", f"there is no {seen.image}: {tag.said[:120]}", hint)


def _holder(seen: Examined, port: int) -> str | None:
    """Return who else has a port: a container by name, or "another program"."""
    name = seen.docker.holders.get(port)
    if name:
        return None if name == seen.container else f"container {name}"
    return "another program" if port in seen.system.ports else None


def _ssh_port(seen: Examined) -> Check:
    wished, first = seen.host.settings.ssh_port, SSH_PORT
    holder = _holder(seen, wished or first)
    if wished is None:
        said = f"{first} is taken by {holder}, the next free one serves" if holder else f"{first} is free"
        return ok("ssh port", f"auto: {said}")
    if not holder:
        return ok("ssh port", f"{wished} is free")
    hint = f"Set ssh_port = auto for {seen.host.name}{seen.set_in('ssh_port')}, or another port."
    return fail("ssh port", f"port {wished} is taken by {holder}", hint)


def _published(seen: Examined) -> Iterator[Check]:
    for port in seen.host.settings.publish:
        holder = _holder(seen, int(port))
        if holder:
            hint = f"Change publish{seen.set_in('publish')}."
            yield fail("publish", f"port {port} is taken by {holder}", hint)
