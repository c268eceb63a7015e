"""What is copied: one image, the same wherever it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.errors import UsageError
from orchestrator.facts.images import HostImage
from orchestrator.units import how_many

_ID = re.compile(r"(sha256:)?([0-9a-f]{6,64})")

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What kernels call processors, and what images do (https://go.dev/doc/install/source#environment)."""


@dataclass(frozen=True)
class Cargo:
    """One image. The id is the engine's own: another one has, for the same image, another id."""

    id: str
    names: tuple[str, ...]  # without a registry where Docker leaves it out
    layers: tuple[str, ...]  # begins of their digests (RootFS)
    config: str  # what it runs
    arch: str
    size: int  # bytes, unpacked

    @property
    def title(self) -> str:
        """What it is called to people."""
        return self.names[0] if self.names else self.id[:12]

    def same(self, other: Cargo) -> bool:
        """Whether two are one image: the same layers, run in the same way."""
        return (self.layers, self.config) == (other.layers, other.config)


def cargo(image: HostImage, names: Iterable[str] | None = None) -> Cargo:
    """Return an image of a host, with all of its names, or with those given."""
    found = image.tags if names is None else names
    return Cargo(
        image.id, tuple(map(plain, found)), image.layers, image.config, processor(image.arch), image.size
    )


def processor(name: str) -> str:
    """Return a processor's kind as images say it."""
    return _ARCHITECTURES.get(name, name)


def plain(name: str) -> str:
    """Return an image's name as Docker says it, with a tag: podman's are told with their registry."""
    short = re.sub(r"^(localhost/|docker\.io/(library/)?)", "", name)
    return short if ":" in short.rpartition("/")[2] else f"{short}:latest"


def engine_name(name: str, kind: str) -> str:
    """Return what an engine is to call an image: podman has all names with a registry, and one for none."""
    short = plain(name)
    if kind == "podman":
        return f"localhost/{short}" if short.startswith("orch/") else name
    return short


def pick(word: str, images: Sequence[HostImage], where: str) -> Cargo:
    """Return the image that `word` names: a tag, or (the begin of) an id. Raises UsageError.

    By a tag only that one comes with it, by an id all that it has.
    """
    named = [i for i in images if plain(word) in map(plain, i.tags)]
    if named:
        return cargo(named[0], [word])
    by_id = _ID.fullmatch(word)
    found = [i for i in images if by_id and i.id.startswith(by_id.group(2))]
    if len(found) > 1:
        raise UsageError(f"{word} is {how_many(len(found), 'image')} on {where}", hint="Give more of the id.")
    if not found:
        raise UsageError(f"there is no image {word} on {where}", hint="See there: docker image ls")
    return cargo(found[0])
