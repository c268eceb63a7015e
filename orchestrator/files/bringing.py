"""Bringing files from a host: small ones in one tar stream, large ones each by itself; cuts cost little."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from orchestrator.errors import HostError, LostConnection
from orchestrator.files import single
from orchestrator.files.fetching import Source
from orchestrator.files.listing import list_files
from orchestrator.files.receiving import Receiving, Wanted, writing
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host
from orchestrator.hosts.line import Line
from orchestrator.render import render

MOMENT = 2
"""Seconds that a file's time may fall short: one written that long before may have changed since, unseen."""

_CHUNK = 1 << 18


def fetch(
    line: Line,
    source: Source,
    take: Sequence[Wanted],
    root: os.PathLike[str],
    *,
    told: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """Bring what a plan takes of a source; return lines about what did not come.

    No file may land outside of `root`. `told` hears how many bytes are here so far; the line, what became of
    a file that grew. Raises HostError, LostConnection (call it again: it goes on), and OrchError when
    something can't be written here.
    """
    together = {w.name: w for w in take if not source.alone(w)}
    alone = [w for w in take if source.alone(w)]
    receiving = Receiving(line.host, root, dict(together), told)
    with closing(line):
        if together:
            receiving.notes += line.keep(lambda m: _stream(m, source, receiving), lambda: receiving.came)
            alone += line.keep(lambda m: _unsure(m, source, together, receiving), lambda: 0)
        for wanted in alone:
            _by_itself(line, source, wanted, receiving)
    receiving.links()
    return receiving.notes


def _stream(machine: Machine, source: Source, receiving: Receiving) -> list[str]:
    """Take what has not come yet, as a tar stream; return lines about what the host could not send."""
    names = b"".join(os.fsencode(f"./{name}") + b"\0" for name in receiving.wanted)
    script = Script("send", render("files/send.sh.j2", base=on_host(source.base).text))
    with machine.stream(script) as stream:
        # In a thread: the host begins to send before it has all names.
        threading.Thread(target=_tell_names, args=(stream, names), daemon=True).start()
        try:
            with _archive(stream) as archive:
                for member in archive:
                    receiving.member(archive, member)
        except tarfile.TarError as error:
            why = f"the transfer was cut off: {next(_complaints(stream), error)}"
            raise LostConnection(why, where=machine.host.name) from error
        complaints = list(_complaints(stream))
    return [f"not fetched: {name} ({_why(name, complaints)})" for name in sorted(receiving.wanted)]


def _archive(stream: Stream) -> tarfile.TarFile:
    """Open the host's archive, or several one after the other (which is what `ignore_zeros` allows)."""
    return tarfile.open(
        fileobj=_Reader(stream), mode="r|", bufsize=_CHUNK, errors="surrogateescape", ignore_zeros=True
    )


def _complaints(stream: Stream) -> Iterator[str]:
    said = stream.read_error().decode("utf-8", "replace")
    return (line for line in said.split("\n") if line.strip())


def _why(name: str, complaints: Sequence[str]) -> str:
    """Return what tar said of a file, else what it said at all."""
    of_it = [line for line in complaints if f"./{name}: " in line]
    return (of_it or [*complaints, "the host did not send it"])[0]


def _tell_names(stream: Stream, names: bytes) -> None:
    with suppress(OSError, HostError):  # a host that went away is noticed by who reads
        stream.write(names)
        stream.close_stdin()


def _unsure(
    machine: Machine, source: Source, together: Mapping[str, Wanted], receiving: Receiving
) -> list[Wanted]:
    """Return files that may have changed while they were read: they are taken once more, with a proof."""
    found = {item.path: item for item in list_files(machine, [(source.base, None)]).roots[0].items}
    files = (w for w in together.values() if w.item.kind == "file" and w.name not in receiving.wanted)
    return [
        wanted
        for wanted in files
        if (now := found.get(wanted.name))
        and now.kind == "file"
        and (now.state != wanted.item.state or now.mtime >= source.asked - MOMENT)
    ]


def _by_itself(line: Line, source: Source, wanted: Wanted, receiving: Receiving) -> None:
    here = 0

    def told(count: int) -> None:
        nonlocal here
        receiving.tell(count - here)
        here = count

    with writing(wanted.to):
        if receiving.makes_room(wanted):
            note = line.keep(
                lambda m: single.bring(
                    m, source.base, wanted, follow=source.follow, told=told, say=line.told
                ),
                lambda: here,
            )
            receiving.placed(wanted, note)


class _Reader(io.RawIOBase):
    """A stream's stdout as a file."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, none at the end."""
        return self._stream.read(size if size > 0 else _CHUNK) or b""
