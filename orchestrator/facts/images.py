"""All images of a host's engine, and which container is made of which."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section

LAYER_DIGITS = len("sha256:") + 16
"""Characters of a layer's digest that are asked for."""


@dataclass(frozen=True)
class HostImage:
    """An image of a host. `listed` False: it is only a step of another one."""

    id: str
    tags: tuple[str, ...]
    size: int  # bytes, of all layers
    created: float | None  # seconds since the epoch
    labels: Mapping[str, str]
    layers: tuple[str, ...]  # begins of their digests (LAYER_DIGITS), the lowest first
    listed: bool
    arch: str = ""
    config: str = ""  # environment, entrypoint, command, folder and user, as `config_text` writes them


@dataclass(frozen=True)
class ImagesReport:
    """What there is. `containers`: name and image's id of every container, whoever's."""

    images: tuple[HostImage, ...] = ()
    containers: tuple[tuple[str, str], ...] = ()


def parse(section: Section) -> ImagesReport:
    """Read the answer of `facts/images.sh.j2`."""
    lines = Lines(section.text)
    listed = {_bare(text) for text in lines.texts("listed")}
    found = (json.loads(text) for text in lines.texts("image") if text.startswith("{"))
    made = (json.loads(text) for text in lines.texts("container") if text.startswith("{"))
    return ImagesReport(
        tuple(_image(image, listed) for image in found),
        tuple((str(c["name"]).lstrip("/"), _bare(c["image"])) for c in made),
    )


IMAGES: Fact[ImagesReport] = Fact("images", "facts/images.sh.j2", parse)


def _image(found: Mapping[str, Any], listed: set[str]) -> HostImage:
    return HostImage(
        id=_bare(found["id"]),
        tags=tuple(_plain(tag) for tag in found.get("tags") or ()),
        size=int(found.get("size") or 0),
        created=_time(str(found.get("created") or "")),
        labels=found.get("labels") or {},
        layers=tuple(str(found.get("layers") or "").split()),
        listed=_bare(found["id"]) in listed,
        arch=str(found.get("arch") or ""),
        config=config_text(*(found.get("config") or ())),
    )


def config_text(*parts: Any) -> str:
    """Return what an image runs as text; engines write what is empty in several ways."""
    return json.dumps([part or None for part in parts]) if parts else ""


def _plain(tag: str) -> str:
    """Return a name without the registry that podman gives to what was built there."""
    return tag.removeprefix("localhost/")


def _bare(image: str) -> str:
    """Return an id without what Docker puts before it and podman does not."""
    return image.strip().removeprefix("sha256:")


def _time(text: str) -> float | None:
    """Read `2026-11-30T02:14:07.123456789Z`; Python takes no nanoseconds."""
    cut = re.sub(r"(\.\d{1,6})\d*", r"\1", text).replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(cut).timestamp()
    except ValueError:
        return None
