"""What there is to bring from a host, and what of it to take."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import HostError, OrchError
from orchestrator.files.listing import WORDS, Item, list_files
from orchestrator.files.part import part_of
from orchestrator.files.receiving import Wanted
from orchestrator.hosts.base import Machine
from orchestrator.units import size

LARGE = 8 << 20
"""Bytes from which on a file is brought by itself, and goes on where it was cut off."""


@dataclass(frozen=True)
class Source:
    """What there is to take: the folder on the host, and its files with their places here."""

    base: str
    wanted: tuple[Wanted, ...]
    follow: bool = False  # the one file may be a link: what it points to is taken
    notes: tuple[str, ...] = ()  # what could not be read
    asked: int = 0  # when, by the host's clock

    def alone(self, wanted: Wanted) -> bool:
        """Whether a file is brought by itself."""
        return wanted.item.kind == "file" and (self.follow or wanted.item.size >= LARGE)


def written(machine: Machine, directory: str, bundle: str, to: Path) -> Source:
    """Return what a run wrote: files of its `work/` that are not, or not so, in `bundle` (its code's folder).

    A launch copies code with its times, so that a file with another size or time was written since.
    """
    work = f"{directory}/work"
    answered = list_files(machine, [(work, None), (bundle, None)])
    here, code = answered.roots
    if here.kind != "dir":
        raise HostError("the run has no work folder any more", where=machine.host.name)
    sent = {item.path: item for item in code.items}
    fresh = [i for i in here.items if _fresh(i, sent.get(i.path)) and "__pycache__" not in i.path.split("/")]
    return Source(
        work, tuple(Wanted(i.path, i, to / i.path) for i in fresh), notes=answered.notes, asked=answered.now
    )


def _fresh(item: Item, code: Item | None) -> bool:
    if code is None or code.kind != item.kind:
        return True
    return item.kind == "file" and (item.size, item.mtime) != (code.size, code.mtime)


def named(machine: Machine, path: str, to: Path) -> Source:
    """Return the file, or all files of the folder, at a path on the host; `to` is its place here."""
    answered = list_files(machine, [(path, None)])
    found = answered.roots[0]
    if found.kind == "dir":
        inside = [i for i in found.items if i.path]
        wanted = tuple(Wanted(i.path, i, to / i.path) for i in inside)
        return Source(path, wanted, notes=answered.notes, asked=answered.now)
    if found.kind != "file":
        raise HostError(f"{path} is {WORDS[found.kind]}", where=machine.host.name)
    base, name = posixpath.split(path)
    return Source(base or ".", (Wanted(name, found.items[0], to),), follow=True)


@dataclass
class Plan:
    """What a fetch will do. `kept` are lines about files that stay as they are here."""

    take: list[Wanted] = field(default_factory=list)
    same: int = 0
    kept: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes to bring."""
        return sum(wanted.item.size for wanted in self.take if wanted.item.kind == "file")

    def here(self, source: Source) -> int:
        """Return how many of those bytes came before a cut of another time."""
        return sum(min(w.item.size, _begun(w)) for w in self.take if source.alone(w))

    def room(self, source: Source) -> int:
        """Return how many bytes the disk here must have free."""
        files = (w for w in self.take if w.item.kind == "file")
        return sum(max(0, w.item.room - (_begun(w) if source.alone(w) else 0)) for w in files)


def _begun(wanted: Wanted) -> int:
    try:
        return os.lstat(part_of(wanted.to)).st_size
    except OSError:
        return 0


def plan(candidates: Iterable[Wanted], *, overwrite: bool) -> Plan:
    """Sort out what is here already (same size and time: a fetch goes on where one was cut off) or newer."""
    result = Plan()
    for wanted in candidates:
        if wanted.item.kind not in ("file", "link"):
            if wanted.item.kind == "other":
                result.kept.append(f"not fetched: {wanted.name} (neither file nor folder)")
            continue
        why = _stays(wanted, overwrite)
        if why == "same":
            result.same += 1
        elif why:
            result.kept.append(f"kept: {wanted.to} ({why})")
        else:
            result.take.append(wanted)
    return result


def _stays(wanted: Wanted, overwrite: bool) -> str:
    try:
        here = os.lstat(wanted.to)
    except OSError:
        return ""
    if wanted.to.is_dir() and not wanted.to.is_symlink():
        return "a folder here"
    if (here.st_size, int(here.st_mtime)) == (wanted.item.size, wanted.item.mtime):
        return "same"
    if int(here.st_mtime) > wanted.item.mtime and not overwrite:
        return "newer here; --overwrite takes the other"
    return ""


def check_room(needed: int, folder: Path) -> None:
    """Raise OrchError when the disk of a folder (which need not exist yet) has no room for so many bytes."""
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OrchError(f"no room in {folder}: {size(needed)} needed, {size(free)} free")
