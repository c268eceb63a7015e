"""What differs between two runs: of their code, packages, image, command, variables and GPUs.

The files of a bundle are compared by name, kind, executable bit, size and time. No file is read for that: the
time of a bundle's file follows from its content (files.archive.time_of).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.files.listing import Item
from orchestrator.run.record import Record

Packages = Mapping[str, str]
Files = Mapping[str, Item]


@dataclass(frozen=True)
class Side:
    """One of the two. `files`: None where its bundle is not on the host any more, or was not asked for."""

    run: str
    command: tuple[str, ...]
    sub: str
    bundle: str
    env: tuple[str, ...]  # names
    image: str  # as the settings name it
    base: str  # digest of the base image
    orch_env: str  # what makes two environments the same
    packages: Packages  # name -> version, of what was added to the image
    gpus: int | None  # how many; None where the environment has none
    commit: str = ""
    files: Files | None = None


@dataclass(frozen=True)
class Changes:
    """Names of one kind of thing that came, went, or changed: (name, before, after)."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Difference:
    """What differs from one run to another; a pair is (before, after), None where both are the same."""

    code: Changes | None = field(default_factory=Changes)  # None: another bundle, whose files are not known
    packages: Changes = field(default_factory=Changes)
    env: Changes = field(default_factory=Changes)
    image: tuple[str, str] | None = None
    command: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    folder: tuple[str, str] | None = None  # below work/, where the command runs
    gpus: tuple[int | None, int | None] | None = None

    def __bool__(self) -> bool:
        pairs = (self.image, self.command, self.folder, self.gpus)
        return self.code is None or any((self.code, self.packages, self.env, *pairs))


def side(record: Record, files: Iterable[Item] | None = None) -> Side:
    """Return what is compared of a worker's run."""
    spec = record.spec
    environment: Mapping[str, Any] = record.worker.get("environment") or {}
    known = vars(spec)
    image: Mapping[str, Any] = known.get("image") or {}
    given = record.worker.get("gpus")
    return Side(
        run=spec.run,
        command=spec.argv,
        sub=spec.sub,
        bundle=spec.bundle,
        env=spec.env,
        image=str(image.get("name") or environment.get("image") or environment.get("engine") or ""),
        base=str(image.get("base") or environment.get("base_id") or ""),
        orch_env=str(known.get("orch_env") or environment.get("env") or ""),
        packages=packages(known.get("packages") or ()),
        gpus=None if given is None or (not given and not environment.get("gpus")) else len(given),
        commit=str(spec.git.get("commit") or ""),
        files=None if files is None else {item.path: item for item in files if item.path},
    )


def packages(lines: Iterable[str]) -> Packages:
    """Return the versions of packages that are written `name==version`; of others what stands there."""
    found = {}
    for line in lines:
        name, _, version = line.partition("==")
        found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


def difference(before: Side, after: Side) -> Difference:
    """Say what differs."""
    return Difference(
        code=_code(before, after),
        packages=_changes(before.packages, after.packages, str),
        env=_changes(dict.fromkeys(before.env, ""), dict.fromkeys(after.env, ""), str),
        image=_image(before, after),
        command=_pair(before.command, after.command),
        folder=_pair(before.sub, after.sub),
        gpus=_pair(before.gpus, after.gpus),
    )


def _pair(before: Any, after: Any) -> Any:
    return None if before == after else (before, after)


def _code(before: Side, after: Side) -> Changes | None:
    if before.bundle == after.bundle:
        return Changes()
    if before.files is None or after.files is None:
        return None
    return _changes(_sent(before.files), _sent(after.files), _content)


def _sent(files: Files) -> Files:
    return {path: item for path, item in files.items() if item.kind != "dir"}


def _content(item: Item) -> str:
    """Return what tells two files of a bundle apart."""
    return f"{item.kind} {item.size} {item.mtime}{' x' * item.executable}"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], content: Callable[[Any], str]) -> Changes:
    both = sorted(before.keys() & after.keys())
    pairs = ((name, content(before[name]), content(after[name])) for name in both)
    return Changes(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(pair for pair in pairs if pair[1] != pair[2]),
    )


def _image(before: Side, after: Side) -> tuple[str, str] | None:
    """Return the images in words where they differ: by name, else by the base's digest, else by the build."""
    if before.image != after.image:
        return before.image, after.image
    if before.base and after.base and before.base != after.base:
        return _built(before, "base", before.base), _built(after, "base", after.base)
    if before.orch_env and after.orch_env and before.orch_env != after.orch_env:
        return _built(before, "build", before.orch_env), _built(after, "build", after.orch_env)
    return None


def _built(side: Side, what: str, digest: str) -> str:
    return f"{side.image} ({what} {digest.rpartition(':')[2][:6]})"
