"""Bringing files from a host: what to take, and one tar stream of it, each file whole or not visible."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import HostError, LostConnection, OrchError
from orchestrator.files.listing import WORDS, Item, list_files
from orchestrator.files.receiving import Receiving, Wanted
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.units import size

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Source:
    """What there is to take: the folder on the host, and its files with their places here."""

    base: str
    wanted: tuple[Wanted, ...]
    follow: bool = False  # the one file may be a link: what it points to is taken
    notes: tuple[str, ...] = ()  # what could not be read


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
    return Source(work, tuple(Wanted(i.path, i, to / i.path) for i in fresh), notes=answered.notes)


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
        return Source(path, tuple(Wanted(i.path, i, to / i.path) for i in inside), notes=answered.notes)
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


def fetch(
    machine: Machine,
    source: Source,
    take: Sequence[Wanted],
    root: Path,
    *,
    told: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """Bring what a plan takes of a source; return lines about what did not come.

    No file may land outside of `root`. `told` hears how many bytes are here so far. Raises HostError,
    LostConnection, and OrchError when something can't be written here.
    """
    if not take:
        return []
    script = Script("send", render("files/send.sh.j2", base=on_host(source.base).text, follow=source.follow))
    with machine.stream(script) as stream:
        names = b"".join(os.fsencode(f"./{wanted.name}") + b"\0" for wanted in take)
        # In a thread: the host begins to send before it has all names.
        threading.Thread(target=_tell_names, args=(stream, names), daemon=True).start()
        receiving = Receiving(machine.host.name, root, {w.name: w for w in take}, told)
        try:
            with _archive(stream) as archive:
                for member in archive:
                    receiving.member(archive, member)
        except tarfile.TarError as error:
            why = f"the transfer was cut off: {_complaint(stream) or error}"
            raise LostConnection(why, where=machine.host.name) from error
        receiving.links()
        why = _complaint(stream) or "the host did not send it"
    return receiving.notes + [f"not fetched: {name} ({why})" for name in sorted(receiving.wanted)]


def _archive(stream: Stream) -> tarfile.TarFile:
    """Open the host's archive, or several one after the other (which is what `ignore_zeros` allows)."""
    return tarfile.open(
        fileobj=_Reader(stream), mode="r|", bufsize=_CHUNK, errors="surrogateescape", ignore_zeros=True
    )


def _complaint(stream: Stream) -> str:
    said = stream.read_error().decode("utf-8", "replace").strip()
    return said.split("\n")[0]


def _tell_names(stream: Stream, names: bytes) -> None:
    with suppress(OSError, HostError):  # a host that went away is noticed by who reads
        stream.write(names)
        stream.close_stdin()


class _Reader(io.RawIOBase):
    """A stream's stdout as a file."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, none at the end."""
        return self._stream.read(size if size > 0 else _CHUNK) or b""
