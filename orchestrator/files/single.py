"""Bringing one file from a host, on from the byte where the last try was cut off, and never as a mixture."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.errors import HostError, LostConnection
from orchestrator.files.listing import DEADLINE
from orchestrator.files.part import Part
from orchestrator.files.receiving import Wanted
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.units import size

TRIES = 3
"""How often a file is taken anew that changes while it is read."""

_CHUNK = 1 << 18
_HEAD = 1 << 10


@dataclass(frozen=True)
class _Head:
    """What the host says first: where it begins, and what the file is."""

    offset: int
    size: int
    mtime: int
    executable: bool


def bring(
    machine: Machine,
    base: str,
    wanted: Wanted,
    *,
    follow: bool,
    told: Callable[[int], None],
    say: Callable[[str], None],
) -> str | None:
    """Bring a file of the folder `base`; return why it did not come, in a line, else None.

    What is here of it already is proved by its digest and kept. `told` hears how many of its bytes are here.
    A file that only grew meanwhile is taken as it was, which `say` hears; one that changed is taken anew.
    Raises LostConnection (call it again), HostError, and OSError when something can't be written here.
    """
    with Part(wanted.to) as part:
        for _ in range(TRIES):
            said, head = _once(machine, f"{base}/{wanted.name}", part, follow, told)
            word, _, rest = said.partition(" ")
            if word == "gone" or head is None:
                return f"not fetched: {wanted.name} ({rest.lower()})"
            whole = part.size == head.size
            if whole and (word == "same" or part.digest() == rest.split(" ")[-1]):
                part.place(head.mtime, executable=head.executable)
                if word == "changed" and int(rest.split(" ")[0]) > head.size:
                    say(f"{wanted.name} grew meanwhile: here are its first {size(head.size)}")
                return None
            part.begin(0)
    return f"not fetched: {wanted.name} (it changed each time that it was read)"


def _once(
    machine: Machine, path: str, part: Part, follow: bool, told: Callable[[int], None]
) -> tuple[str, _Head | None]:
    """Read the file once, from where the part ends if that is how it begins; return the host's verdict."""
    mark, begun = f"orch-read-{secrets.token_hex(12)}", part.size
    text = render(
        "files/read.sh.j2",
        file=on_host(path).text,
        follow=follow,
        offset=begun,
        digest=part.digest() if begun else "",
        mark=mark,
    )
    with machine.stream(Script("read", text)) as stream:
        stream.close_stdin()
        head, data = _head(stream, machine.host.name)
        if head:
            _receive(stream, part, head, data, told)
        said = stream.read_error()
        while more := stream.read_error():
            said += more
    _, found, words = said.decode("utf-8", "replace").rpartition(f"{mark} ")
    if not found:
        raise LostConnection("the transfer was cut off", where=machine.host.name)
    return words.split("\n")[0], head


def _head(stream: Stream, host: str) -> tuple[_Head | None, bytes]:
    """Return what comes first, and the first bytes behind it; no head where the host sends nothing."""
    begun = b""
    while b"\n" not in begun:
        data = _next(stream, host)
        if not data or len(begun) > _HEAD:
            return None, b""
        begun += data
    line, _, data = begun.partition(b"\n")
    try:
        offset, whole, mtime = map(int, line.split()[1:4])
        return _Head(offset, whole, mtime, bool(int(line.split()[4], 16) & 0o100)), data
    except (ValueError, IndexError) as error:
        raise HostError(f"its answer makes no sense: {line[:80]!r}", where=host) from error


def _next(stream: Stream, host: str) -> bytes:
    data = stream.read(_CHUNK, timeout=DEADLINE)
    if data is None:
        raise LostConnection(f"nothing came for {DEADLINE:.0f} s", where=host)
    return data


def _receive(stream: Stream, part: Part, head: _Head, data: bytes, told: Callable[[int], None]) -> None:
    part.begin(head.offset)
    done = head.offset
    while data or (data := _next(stream, part.to.name)):
        done += len(data)
        if done > head.size:
            raise HostError(f"it sent more of {part.to.name} than there is")
        part.write(data)
        told(done)
        data = b""
    part.settle()
