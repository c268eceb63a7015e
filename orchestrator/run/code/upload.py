"""Bringing a bundle to a host: the host says which files it lacks, and these come in one tar stream.

All of it is one exec (templates/run/bundle.sh.j2). What bundles that are there already have in common with
the new one is taken from them, its digests checked; the part folder is renamed when it is whole.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable

from orchestrator.errors import HostError, LostConnection
from orchestrator.files.archive import gathered
from orchestrator.files.pouring import pour
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.run.code.bundle import Bundle, Entry
from orchestrator.units import size

_BLOCK = 4096  # bytes that a small file takes on most file systems

_ODD = re.compile(r"[\n\r]")
"""What a line can't hold, or a newer sha256sum passes over: files of such names are always sent."""

Told = Callable[[int], None]


def upload(machine: Machine, place: str, bundle: Bundle, *, told: Told = lambda sent: None) -> None:
    """Bring a bundle to `place` (the project's folder on the host; may start with `~/`).

    Nothing happens where it is whole already. `told` hears how many bytes of the stream are sent so far.
    Raises HostError (with the space needed when the disk is full), LostConnection, and Changed when a
    file changed since it was collected; an upload that failed leaves nothing that looks whole.
    """
    asked = [entry for entry in bundle.entries if entry.kind == "file" and not _ODD.search(entry.path)]
    try:
        how, rest, words = _attempt(machine, place, bundle, asked, told, reuse=True)
        if how == "differs":  # somebody changed a bundle there
            how, rest, words = _attempt(machine, place, bundle, asked, told, reuse=False)
    except LostConnection as error:
        raise _cut_off(error.message, machine.host.name) from error
    _judge(how, rest, words, machine.host.name, f"{place}/bundles", bundle)


def _attempt(
    machine: Machine, place: str, bundle: Bundle, asked: list[Entry], told: Told, *, reuse: bool
) -> tuple[str, str, str]:
    """Return how it ended, what the host said of it, and its words on stderr."""
    token = secrets.token_hex(8)
    end = f".orch-end-{token}"
    with machine.stream(_script(place, bundle, token, end, len(asked), reuse)) as stream:
        said = pour(stream, gathered(_lines(asked)), lambda sent: None, more=True)
        how, _, rest = said.partition(" ")
        if how == "go":
            here = {entry.path for entry, lacks in zip(asked, rest, strict=False) if lacks == "0"}
            how, _, rest = pour(stream, bundle.tar(end, here), told).partition(" ")
        return how, rest, stream.read_error().decode("utf-8", "replace").strip()


def _script(place: str, bundle: Bundle, token: str, end: str, count: int, reuse: bool) -> Script:
    text = render(
        "run/bundle.sh.j2",
        place=on_host(place).text,
        digest=bundle.digest,
        token=token,
        end=end,
        count=count,
        reuse=reuse,
    )
    return Script("bundle", text)


def _lines(asked: Iterable[Entry]) -> Iterable[bytes]:
    for entry in asked:
        kind = b"x" if entry.executable else b"f"
        yield b"%b%b %d %b\n" % (kind, entry.sha256.encode(), entry.size, os.fsencode(entry.path))


def _space(bundle: Bundle) -> int:
    return sum(-(-entry.size // _BLOCK) * _BLOCK for entry in bundle.entries)


def _judge(how: str, rest: str, words: str, host: str, place: str, bundle: Bundle) -> None:
    if how in ("whole", "there"):
        return
    if how == "full":
        raise HostError(f"no space left on device: {_wanting(rest, bundle)} at {place}", where=host)
    if how == "differs":
        raise HostError(f"the code did not arrive as it was sent: {rest}", where=host)
    if how == "failed":
        raise HostError(f"the code could not be placed in {place}: {rest}", where=host)
    raise _cut_off(words, host)


def _wanting(said: str, bundle: Bundle) -> str:
    """Say what is needed and what is free; `said` is `FREE_KB [NEEDED_KB]`, or nothing."""
    free, needed = ([int(word) * 1024 for word in said.split() if word.isdigit()] + [-1, -1])[:2]
    wanted = f"the code needs {size(needed if needed >= 0 else _space(bundle))}"
    return wanted + (f", {size(free)} free" if free >= 0 else "")


def _cut_off(words: str, host: str) -> LostConnection:
    message = f"the upload of the code was cut off{f': {words}' if words else ''}"
    return LostConnection(message, where=host, hint="Nothing was started: try again.")
