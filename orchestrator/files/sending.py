"""Bringing local files to a host: only what it lacks, visible when all of it is there; cuts cost little."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import HostError, LostConnection, OrchError
from orchestrator.files import local as here
from orchestrator.files.archive import TRAILER, gathered, member, padding
from orchestrator.files.fetching import LARGE
from orchestrator.files.listing import Answer, Item, list_files
from orchestrator.files.local import Changed, Local
from orchestrator.files.part import PART
from orchestrator.files.pouring import answer, pour
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host
from orchestrator.hosts.line import Line
from orchestrator.render import render
from orchestrator.units import size

TRIES = 3
"""How often a file is sent anew that changes while it is read."""


@dataclass(frozen=True)
class Sent:
    """What was sent, and lines about what was not."""

    into: str  # where it went on the host
    count: int
    size: int
    notes: tuple[str, ...]


@dataclass
class Sending:
    """A copy of what is local to `into` on a host: below it where it is a folder, else by this name.

    What is there already (same size and time) is not sent; what is newer there stays, unless `overwrite`.
    `token` names the folder beside `into` where it comes together: with the same one a copy that was cut off
    goes on. `audit` is the project's folder there, whose audit.log hears of it from `by`.
    """

    what: Local
    into: str
    token: str
    overwrite: bool = False
    audit: str = ""
    by: str = ""
    told: Callable[[int], None] = lambda sent: None
    large: int = LARGE
    _moved: int = field(default=0, init=False)

    def over(self, line: Line) -> Sent:
        """Send it. Raises HostError (no such folder, no room), LostConnection, and OrchError for a file here.

        What failed is not visible on the host.
        """
        try:
            return line.keep(self._lasting, lambda: self._moved)
        finally:
            line.close()

    def _lasting(self, machine: Machine) -> Sent:
        for left in reversed(range(TRIES)):
            try:
                return self._once(machine)
            except Changed as changed:
                if not left:
                    raise OrchError(
                        f"{changed} changes while it is read", hint="Copy it when it is written."
                    ) from changed
                self.what = here.local(self.what.source)
        raise AssertionError("the last try returns or raises")

    def _once(self, machine: Machine) -> Sent:
        """Send what has not come in an earlier try, and put all of it in place."""
        host, notes, name = machine.host.name, list(self.what.notes), self.what.source.resolve().name
        answered = list_files(machine, [], into=self.into, name=name, part=self._part)
        take = _choose(self.what.items, answered, self.overwrite, notes, host)
        came = {item.path: item for item in answered.roots[-2].items}
        left = [item for item in take if _lacks(item, came)]
        count, total = sum(i.kind != "dir" for i in take), sum(i.size for i in take if i.kind == "file")
        begun = sum(min(item.size, _begun(item, came)) for item in take if item.kind == "file")
        if answered.free is not None and total - begun > answered.free:
            raise _no_room(host, total - begun, answered.free)
        if count or (take and answered.roots[-1].kind == "missing"):
            self._send(machine, left, answered.into, total - sum(i.size for i in left if i.kind == "file"))
        return Sent(answered.into, count, total, tuple(notes))

    @property
    def _part(self) -> str:
        return PART + self.token

    def _send(self, machine: Machine, left: Sequence[Item], into: str, done: int) -> None:
        alone = [i for i in left if i.kind == "file" and i.size >= self.large]
        together = [i for i in left if i not in alone]
        if together:
            with self._stream(machine, "take", into) as stream:
                said = pour(stream, gathered(self._pieces(together)), self._hears(done))
                self._judge(machine, said, stream.read_error(), into)
            done += sum(i.size for i in together if i.kind == "file")
        for item in alone:
            self._grow(machine, item, into, done)
            done += item.size
        with self._stream(machine, "place", into, audit=on_host(self.audit).text, by=self.by) as stream:
            stream.close_stdin()
            self._judge(machine, answer(stream), stream.read_error(), into)

    def _grow(self, machine: Machine, item: Item, into: str, done: int) -> None:
        """Send one file, on from what the host has of it if that is how it begins."""
        name, file = _inside(item), self.what.place(item)
        values = {"file": name, "size": item.size, "mode": f"{item.mode:o}", "mtime": item.mtime}
        with self._stream(machine, "grow", into, **values) as stream:
            said = answer(stream)
            if said.startswith("have "):
                have, digest = int(said.split()[1]), said.split()[2]
                start = have if 0 < have <= item.size and here.digest(file, have) == digest else 0
                stream.write(f"{start}\n".encode())
                said = pour(stream, here.content(file, item, start), self._hears(done + start))
            self._judge(machine, said, stream.read_error(), into)

    def _stream(self, machine: Machine, script: str, into: str, **values: object) -> Stream:
        text = render(f"files/{script}.sh.j2", into=on_host(into).text, part=self._part, **values)
        return machine.stream(Script(script, text))

    def _hears(self, before: int) -> Callable[[int], None]:
        def told(sent: int) -> None:
            self._moved += 1
            self.told(before + sent)

        return told

    def _judge(self, machine: Machine, said: str, words: bytes, into: str) -> None:
        host, (how, _, rest) = machine.host.name, said.partition(" ")
        if how == "full":
            free = int(rest) * 1024 if rest.isdigit() else None
            raise _no_room(host, self.what.size, free)
        if how == "failed" and rest != "the stream ended early":
            raise HostError(f"{into} could not be written: {rest}", where=host)
        if how != "whole":
            why = words.decode("utf-8", "replace").strip()
            raise LostConnection(f"the copy was cut off{f': {why}' if why else ''}", where=host)

    def _pieces(self, take: Sequence[Item]) -> Iterator[bytes]:
        for item in take:
            name = _inside(item)
            if item.kind == "dir":
                yield member(name, mode=item.mode | 0o700, mtime=item.mtime, folder=True)
            elif item.kind == "link":
                target = os.readlink(self.what.place(item))
                yield member(name, mode=0o777, mtime=item.mtime, target=target)
            else:
                yield member(name, mode=item.mode, size=item.size, mtime=item.mtime)
                yield from here.content(self.what.place(item), item)
                yield padding(item.size)
        yield member("end", mode=0o600)
        yield TRAILER


def _inside(item: Item) -> str:
    """Return the name of an item in the part folder."""
    return f"new/{item.path}".rstrip("/")


def _lacks(item: Item, came: dict[str, Item]) -> bool:
    old = came.get(_inside(item))
    if item.kind == "dir":
        return old is None or old.kind != "dir"
    return old is None or (old.kind, old.size, old.mtime) != (item.kind, item.size, item.mtime)


def _begun(item: Item, came: dict[str, Item]) -> int:
    old = came.get(_inside(item))
    return old.size if old else 0


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


def _no_room(host: str, needed: int, free: int | None) -> HostError:
    left = f", {size(free)} free" if free is not None else ""
    return HostError(f"no space left on device: {size(needed)} needed{left}", where=host)
