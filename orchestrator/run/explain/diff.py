"""What differs between two runs: of their code, packages, image, command, variables and GPUs.

The files of a bundle are compared by name, kind, executable bit, size and time. No file is read for that: the
time of a bundle's file follows from its content (files.archive.time_of). Of a link only the length of its
target counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.files.archive import time_of
from orchestrator.files.listing import Item
from orchestrator.run.code.bundle import Bundle, Entry
from orchestrator.run.record import Record

Packages = Mapping[str, str]


@dataclass(frozen=True)
class File:
    """What tells a file, or a link, of a bundle from another of its name."""

    kind: str
    size: int
    time: int
    executable: bool

    @classmethod
    def listed(cls, item: Item) -> File:
        """Make it of what a host lists."""
        file = item.kind == "file"
        return cls(item.kind, item.size, item.mtime if file else 0, file and item.executable)

    @classmethod
    def sent(cls, entry: Entry) -> File:
        """Make it of what a bundle holds."""
        if entry.kind == "file":
            return cls("file", entry.size, time_of(entry.sha256), entry.executable)
        return cls(entry.kind, len(os.fsencode(entry.target)), 0, False)


Files = Mapping[str, File]
"""By path, without folders."""


def listed(items: Iterable[Item]) -> Files:
    """Return the files of a bundle as a host lists them."""
    return {item.path: File.listed(item) for item in items if item.kind != "dir"}


def sent(bundle: Bundle) -> Files:
    """Return the files of a bundle that is here."""
    return {entry.path: File.sent(entry) for entry in bundle.entries if entry.kind != "dir"}


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
    settings: Mapping[str, str] = field(default_factory=dict)  # what it was deployed with, as digests
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
    settings: tuple[str, ...] = ()  # names of those by which the environments were deployed differently
    command: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    folder: tuple[str, str] | None = None  # below work/, where the command runs
    gpus: tuple[int | None, int | None] | None = None

    def __bool__(self) -> bool:
        pairs = (self.image, self.settings, self.command, self.folder, self.gpus)
        return self.code is None or any((self.code, self.packages, self.env, *pairs))


def side(record: Record, files: Files | None = None) -> Side:
    """Return what is compared of a worker's run."""
    spec = record.spec
    environment: Mapping[str, Any] = record.worker.get("environment") or {}
    given = record.worker.get("gpus")
    return Side(
        run=spec.run,
        command=spec.argv,
        sub=spec.sub,
        bundle=spec.bundle,
        env=spec.env,
        image=str(spec.image.get("name") or environment.get("image") or environment.get("engine") or ""),
        base=str(spec.image.get("base") or environment.get("base_id") or ""),
        orch_env=str(spec.orch_env or environment.get("env") or ""),
        packages=packages(spec.packages),
        gpus=None if given is None or (not given and not environment.get("gpus")) else len(given),
        commit=str(spec.git.get("commit") or ""),
        settings=environment.get("settings") or {},
        files=files,
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
        settings=_settings(before, after),
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
    return _changes(before.files, after.files, repr)


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


def _settings(before: Side, after: Side) -> tuple[str, ...]:
    """Return names of settings that both environments noted, and differently; the image is told apart."""
    both = before.settings.keys() & after.settings.keys() - {"image"}
    return tuple(sorted(name for name in both if before.settings[name] != after.settings[name]))


def _built(side: Side, what: str, digest: str) -> str:
    return f"{side.image} ({what} {digest.rpartition(':')[2][:6]})"
