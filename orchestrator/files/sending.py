"""Bringing local files to a host: only what it lacks, in one tar stream, visible when all of it is there."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import HostError, LostConnection, OrchError, UsageError
from orchestrator.files.archive import TRAILER, gathered, member, padding
from orchestrator.files.listing import Answer, Item, kind_of, list_files
from orchestrator.files.part import PART
from orchestrator.files.pouring import pour
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.units import size

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Sent:
    """What was sent, and lines about what was not."""

    into: str  # where it went on the host
    count: int
    size: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Local:
    """A local file or folder, listed as `listing` lists those of a host; `notes` say what can't be sent."""

    source: Path
    items: tuple[Item, ...]
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(item.size for item in self.items if item.kind == "file")


def local(source: Path) -> Local:
    """List what is to be copied. Raises UsageError when there is nothing, or a link leads out of it."""
    items: list[Item] = []
    notes: list[str] = []
    pending = [""]
    while pending:
        path = pending.pop()
        place = source / path
        try:
            status = os.lstat(place) if path else os.stat(place)
            if stat.S_ISDIR(status.st_mode):
                pending += [os.path.join(path, name) for name in os.listdir(place)]
        except OSError as error:
            why = (error.strerror or "unreadable").lower()
            if not path:
                raise UsageError(f"{source}: {why}") from error
            notes.append(f"not sent: {path} ({why})")
            continue
        if stat.S_ISLNK(status.st_mode):
            _check_link(source, path)
        item = Item(
            path, kind_of(status.st_mode), status.st_mode & 0o777, status.st_size, int(status.st_mtime)
        )
        if item.kind == "other":
            notes.append(f"not sent: {path} (neither file nor folder)")
        else:
            items.append(item)
    return Local(source, tuple(sorted(items, key=lambda item: os.fsencode(item.path))), tuple(notes))


def _check_link(source: Path, path: str) -> None:
    target = os.readlink(source / path)
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if os.path.isabs(target) or inside.split("/")[0] == "..":
        raise UsageError(
            f"{source / path} is a link to {target}, which is not in {source}",
            hint="Replace it by what it points to, or copy that by itself.",
        )


def send(
    machine: Machine,
    what: Local,
    into: str,
    *,
    overwrite: bool = False,
    told: Callable[[int], None] = lambda sent: None,
) -> Sent:
    """Copy what is local to `into` on the host: below it where it is a folder, else by this name.

    What is there already (same size and time) is not sent; what is newer there stays, unless `overwrite`.
    Raises UsageError, HostError (no such folder, no room) and LostConnection; what failed is not visible.
    """
    host, notes = machine.host.name, list(what.notes)
    answered = list_files(machine, [], into=into, name=what.source.resolve().name)
    take = _choose(what.items, answered, overwrite, notes, host)
    count, total = sum(item.kind != "dir" for item in take), sum(i.size for i in take if i.kind == "file")
    if answered.free is not None and total > answered.free:
        raise _no_room(host, total, answered.free)
    if count or (take and answered.roots[-1].kind == "missing"):
        _pour(machine, what.source, take, answered.into, told)
    return Sent(answered.into, count, total, tuple(notes))


def _choose(
    items: Sequence[Item], answered: Answer, overwrite: bool, notes: list[str], host: str
) -> list[Item]:
    """Leave out what is there already, and, saying so, what is newer there."""
    there = answered.roots[-1]
    if not answered.parent:
        raise HostError(f"there is no folder for {answered.into}", where=host)
    if there.kind in ("dir", "file") and (there.kind == "dir") != (items[0].kind == "dir"):
        raise HostError(
            f"{answered.into} is a {'folder' if there.kind == 'dir' else 'file'} there", where=host
        )
    have = {item.path: item for item in there.items}
    take = []
    for item in items:
        old = have.get(item.path)
        if item.kind != "dir" and old is not None:
            if (old.kind, old.size, old.mtime) == (item.kind, item.size, item.mtime):
                continue
            if old.kind == "dir" or (old.mtime > item.mtime and not overwrite):
                why = "a folder" if old.kind == "dir" else "newer"
                notes.append(f"kept: {os.path.join(answered.into, item.path)} ({why} there)")
                continue
        take.append(item)
    return take


def _pour(
    machine: Machine, source: Path, take: Sequence[Item], into: str, told: Callable[[int], None]
) -> None:
    part = PART + secrets.token_hex(8)
    script = Script("take", render("files/take.sh.j2", into=on_host(into).text, part=part))
    with machine.stream(script) as stream:
        said = pour(stream, gathered(_pieces(source, take)), told)
        words = stream.read_error().decode("utf-8", "replace").strip()
    how, _, rest = said.partition(" ")
    if how == "full":
        free = int(rest) * 1024 if rest.isdigit() else None
        raise _no_room(machine.host.name, sum(item.size for item in take), free)
    if how == "failed":
        raise HostError(f"{into} could not be written: {rest}", where=machine.host.name)
    if how != "whole":
        raise LostConnection(f"the copy was cut off{f': {words}' if words else ''}", where=machine.host.name)


def _no_room(host: str, needed: int, free: int | None) -> HostError:
    left = f", {size(free)} free" if free is not None else ""
    return HostError(f"no space left on device: {size(needed)} needed{left}", where=host)


def _pieces(source: Path, take: Sequence[Item]) -> Iterator[bytes]:
    for item in take:
        name = f"new/{item.path}".rstrip("/")
        if item.kind == "dir":
            yield member(name, mode=item.mode | 0o700, mtime=item.mtime, folder=True)
        elif item.kind == "link":
            target = os.readlink(source / item.path)
            yield member(name, mode=0o777, mtime=item.mtime, target=target)
        else:
            yield member(name, mode=item.mode, size=item.size, mtime=item.mtime)
            yield from _content(source / item.path if item.path else source, item)
            yield padding(item.size)
    yield member("end", mode=0o600)
    yield TRAILER


def _content(file: Path, item: Item) -> Iterator[bytes]:
    left = item.size
    try:
        with file.open("rb", buffering=0) as source:
            while left and (data := source.read(min(_CHUNK, left))):
                left -= len(data)
                yield data
    except OSError as error:
        raise OrchError(f"{file} can't be read: {(error.strerror or str(error)).lower()}") from error
    if left:
        raise OrchError(f"{file} became shorter while it was read", hint="Try again.")
