"""What files there are in folders of a host: one exec for any number of them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.errors import HostError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render

DEADLINE = 300.0
"""Seconds for a listing: a folder may hold very many files."""

Kind = Literal["file", "dir", "link", "other"]

WORDS = {
    "missing": "not there",
    "unreadable": "not for this account to read",
    "other": "neither a file nor a folder",
}
"""What is wrong with a root that can't be listed."""

_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


def kind_of(mode: int) -> Kind:
    """Return what st_mode says a thing is."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


@dataclass(frozen=True)
class Item:
    """One thing in a folder. `path` is relative to the root, empty for the root itself; times in seconds."""

    path: str
    kind: Kind
    mode: int
    size: int
    mtime: int
    version: int = field(default=0, compare=False)  # inode on a host, time in nanoseconds of a local file
    blocks: int | None = field(default=None, compare=False)  # of 512 bytes, that it takes on its disk

    @property
    def room(self) -> int:
        """Bytes that it needs on a disk: fewer than its size where it has holes."""
        return self.size if self.blocks is None else min(self.size, self.blocks * 512)

    @property
    def state(self) -> tuple[int, int, int]:
        """What is another for another file, and for one that was written since."""
        return self.size, self.mtime, self.version

    @property
    def executable(self) -> bool:
        """Whether its owner may run it."""
        return bool(self.mode & 0o100)


@dataclass(frozen=True)
class Listing:
    """A root and what is in it. `kind`: missing | file | dir | other | unreadable."""

    kind: str
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The listings in the order asked for, and what a copy to the host needs to know."""

    roots: tuple[Listing, ...]
    notes: tuple[str, ...] = ()  # what could not be read
    into: str = ""  # where a copy to the host goes
    parent: bool = True  # whether the folder that it goes to is there
    free: int | None = None  # bytes there
    now: int = 0  # when it was asked, by the host's clock


def list_files(
    machine: Machine,
    roots: Sequence[tuple[str, int | None]],
    *,
    into: str = "",
    name: str = "",
    part: str = "",
) -> Answer:
    """List roots (paths on the host, `~/` being its home) with their depth (None: all of it).

    With `into` and `name`, also what a copy called `name` would meet at `into`: its listing is the last,
    before it that of the folder `part` beside it, where a copy that was cut off has left what came.
    Raises HostError, also for names that no file can have.
    """
    text = render(
        "files/list.sh.j2",
        roots=[(on_host(path).text, depth) for path, depth in roots],
        into=on_host(into).text if into else "",
        name=name,
        part=part,
    )
    result = machine.ask(Script("list", text, asks=True), deadline=DEADLINE)
    notes = [_note(line) for line in os.fsdecode(result.err).splitlines() if line.strip()]
    return parse(result.out, machine.host.name, tuple(notes))


def _note(line: str) -> str:
    return re.sub(r"^\S*find: ", "", line).strip()


def parse(out: bytes, host: str, notes: tuple[str, ...] = ()) -> Answer:
    """Read the answer of files/list.sh.j2."""
    roots: list[tuple[str, list[Item]]] = []
    said: dict[str, str] = {}
    for record in os.fsdecode(out).removesuffix("\n").removeprefix("//").split("\n//"):
        word, _, rest = record.partition(" ")
        if word == "root":
            roots.append((rest, []))
        elif word in ("into", "parent", "free", "now"):
            said[word] = rest
        elif word and roots:
            roots[-1][1].append(_item(word, rest, host))
    return Answer(
        tuple(Listing(kind, tuple(items)) for kind, items in roots),
        notes,
        said.get("into", ""),
        said.get("parent") != "",
        int(said["free"]) * 1024 if said.get("free", "").isdigit() else None,
        int(said["now"]) if said.get("now", "").isdigit() else 0,
    )


def _item(mode: str, rest: str, host: str) -> Item:
    try:
        size, mtime, inode, blocks, name = rest.split(" ", 4)
        bits = int(mode, 16)
        path = "" if name == "." else name.removeprefix("./")
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(path)
        return Item(path, kind_of(bits), bits & 0o777, int(size), int(mtime), int(inode), int(blocks))
    except ValueError as error:
        raise HostError(f"its list of files makes no sense: {rest!r}", where=host) from error
