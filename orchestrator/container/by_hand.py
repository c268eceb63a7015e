"""What somebody changed on a host since the deploy, past orch: told by a plan and by doctor. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.container.difference import Difference
from orchestrator.container.engine import Environment
from orchestrator.facts.docker import Container, Image
from orchestrator.facts.place import PlaceReport
from orchestrator.units import size


def by_hand(
    name: str, old: Container | None, recorded: Environment | None, images: Mapping[str, Image]
) -> tuple[Difference, ...]:
    """Compare the container `name` as it was when its deploy ended with what the engine says of it now.

    What was not recorded (by an older orch) is not compared.
    """
    if not recorded or not recorded.container or recorded.name != name:
        return ()
    if not old:
        gone = f"{recorded.container[:12]}, deployed {recorded.deployed}, is gone"
        return (Difference("container", words=gone),)
    if old.id != recorded.container:
        return ()
    return tuple(_changed(name, old, recorded, images))


def folder_deleted(old: Container | None, place: PlaceReport, uid: int) -> tuple[Difference, ...]:
    """Say that the project's folder was deleted under its container, which still has the old one mounted.

    A deploy that was cut short leaves no record either, but has placed the keys before it starts anything.
    """
    there = place.environment or place.placed_keys
    if not old or there or (place.exists and uid not in (0, place.owner)):
        return ()
    return (Difference("folder", words=f"{place.path} was deleted"),)


def _changed(
    name: str, old: Container, recorded: Environment, images: Mapping[str, Image]
) -> Iterator[Difference]:
    if old.name != name:
        yield Difference("name", name, old.name)
    for key, was in recorded.made.items():
        now = old.made.get(key, was)
        if now != was and (key != "networks" or old.running):
            yield Difference(key, _words(key, was), _words(key, now))
    image = images.get(recorded.tag or "")
    if image and recorded.tagged and image.id != recorded.tagged:
        yield Difference("image", words=f"{recorded.tag} is another image now")


def _words(key: str, value: Any) -> str:
    if key == "networks":
        return ", ".join(v for v in value if v) or "none"
    if not value or value == -1:
        return "none" if key in ("restart", "cpuset") else "no limit"
    if key == "memory":
        return size(value)
    return f"{value / 1e9:g}" if key == "cpus" else str(value)


def find(name: str, containers: tuple[Container, ...], recorded: Environment | None) -> Container | None:
    """Return the container of that name, else the one that was deployed and that somebody renamed."""
    for container in containers:
        if container.name == name:
            return container
    mine = recorded.container if recorded and recorded.name == name else None
    renamed = (c for c in containers if c.id == mine and c.name != old_name(name, c.id))
    return next(renamed, None)


def old_name(name: str, container: str) -> str:
    """Return what a container is called once another one has taken its place."""
    return f"{name}-old-{container[:12]}"
