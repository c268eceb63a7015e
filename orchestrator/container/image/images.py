"""The images that orch built on a host: whose they are, who uses them, and what their removal frees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from orchestrator.container.identity import Identity, caller, slug
from orchestrator.container.image.build import Told
from orchestrator.container.refusals import engine_error, engine_trouble
from orchestrator.container.settle import settle
from orchestrator.container.turn import BUILD_LOCK, LOCK, turn
from orchestrator.facts.docker import DOCKER
from orchestrator.facts.images import IMAGES, HostImage, ImagesReport
from orchestrator.facts.question import ask
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render

DEADLINE = 600.0
"""Seconds to remove images: an engine takes long for large ones on a slow disk."""


@dataclass(frozen=True)
class OwnImage:
    """An image that orch built. `kind`: `image`, or `base` (of a team's own Dockerfile)."""

    name: str
    image: HostImage
    kind: str
    person: str | None  # None: built before images said whose they are
    project: str | None
    containers: tuple[str, ...]  # that need it

    def removable_by(self, person: str) -> bool:
        """Whether it is this person's and no container needs it."""
        return self.person == person and not self.containers


@dataclass(frozen=True)
class Images:
    """What a host has."""

    report: ImagesReport
    own: tuple[OwnImage, ...]


def survey_images(machine: Machine, identity: Identity) -> Images:
    """Ask in one exec. Raises HostError or NotPermitted when an engine of containers can't be used.

    Where the environment is in none there may be images of earlier deploys all the same.
    """
    settle(machine, identity.place(machine.host))
    host = machine.host
    values = {"docker": host.settings.container_command}
    answers = ask(machine, DOCKER, IMAGES, values=values, deadline=DEADLINE)
    trouble = engine_trouble(host, answers.of(DOCKER)) if host.settings.in_container else None
    if trouble:
        raise engine_error(host, trouble, host.user or "ACCOUNT")
    return own_images(answers.of(IMAGES))


def own_images(report: ImagesReport) -> Images:
    """Pick out what orch built, the newest first."""
    own = [found for image in report.images if (found := _own(image, report))]
    return Images(report, tuple(sorted(own, key=lambda o: (-(o.image.created or 0), o.name))))


def _own(image: HostImage, report: ImagesReport) -> OwnImage | None:
    labels = image.labels
    if not image.listed or not ("orch.recipe" in labels or "orch.source" in labels):
        return None
    whose = _whose(labels.get("orch.image", ""))
    name = next((tag for tag in image.tags if _is_ours(tag)), image.id[:12])
    kind = "image" if "orch.recipe" in labels else "base"
    return OwnImage(name, image, kind, whose.get("person"), whose.get("project"), _users(image, report))


def _whose(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_ours(tag: str) -> bool:
    return bool(re.match(r"(localhost/)?orch/", tag))


def _users(image: HostImage, report: ImagesReport) -> tuple[str, ...]:
    """Return the containers that are made of an image, or of one that is built on it."""
    size = len(image.layers)
    needing = {i.id for i in report.images if len(i.layers) > size and i.layers[:size] == image.layers}
    return tuple(sorted(name for name, of in report.containers if of in {image.id, *needing}))


def freed(images: Images, gone: Sequence[OwnImage]) -> int:
    """Return about how many bytes go with images: their layers that no other one has.

    The sizes of layers are not told, but those of images are: what is shared is as large as the largest
    image that is all of it. With BuildKit there may be none between the base and the whole.
    """
    going = {o.image.id for o in gone if all(map(_is_ours, o.image.tags))}
    staying = [i.layers for i in images.report.images if i.listed and i.id not in going]
    total = 0
    for image in sorted((o.image for o in gone if o.image.id in going), key=lambda i: len(i.layers)):
        shared = max((_common(image.layers, layers) for layers in staying), default=0)
        total += image.size - _size_of(image.layers[:shared], images.report)
        staying.append(image.layers)
    return total


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _size_of(layers: Sequence[str], report: ImagesReport) -> int:
    known = (i.size for i in report.images if i.layers == tuple(layers[: len(i.layers)]))
    return max(known, default=0)


def remove(machine: Machine, gone: Sequence[OwnImage], told: Told) -> Iterator[str]:
    """Remove images by their tags; yields what the engine would not remove, and why.

    It is the turn of their projects: what a deploy builds and has not started yet stays. The engine itself
    keeps what a container began to use meanwhile. Raises Busy while somebody deploys, or HostError.
    """
    host = machine.host
    text = render(
        "container/image_rm.sh.j2",
        engine=host.settings.container_command,
        images=[(o.name, _names(o), on_host(_place(host.settings.root, o)).text) for o in _tops_first(gone)],
        by=caller(),
    )
    with ExitStack() as turns:
        for place in _deployed(machine, sorted({_place(host.settings.root, o) for o in gone})):
            for lock in (BUILD_LOCK, LOCK):
                turns.enter_context(turn(machine, place, what="prune", lock=lock, told=told))
        said = machine.ask(Script("image rm", text), deadline=DEADLINE).text
    yield from (line.removeprefix("kept ") for line in said.splitlines() if line.startswith("kept "))


def _deployed(machine: Machine, places: Sequence[str]) -> list[str]:
    """Return those of the projects' folders that are there, absolute."""
    look = "".join(f"(cd {on_host(place).text} 2>/dev/null && pwd)\n" for place in places)
    return machine.ask(Script("places", f"{look}:")).text.split("\n")[:-1]


def _tops_first(gone: Sequence[OwnImage]) -> list[OwnImage]:
    return sorted(gone, key=lambda o: -len(o.image.layers))


def _names(own: OwnImage) -> list[str]:
    return [tag for tag in own.image.tags if _is_ours(tag)] or [own.image.id]


def _place(root: str, own: OwnImage) -> str:
    """Return the project's folder; it may begin with `~/`."""
    return f"{root.rstrip('/')}/{slug(own.person or '')}/{slug(own.project or '')}"
