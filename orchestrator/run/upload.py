"""Bringing a bundle to a host: one tar stream into a part folder, which is renamed when it is whole."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from orchestrator.container.identity import on_host
from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script
from orchestrator.render import render
from orchestrator.run.bundle import Bundle
from orchestrator.units import size

PATIENCE = 120.0
"""Seconds for the host to put the last files on its disk."""

_BLOCK = 4096  # bytes that a small file takes on most file systems


def upload(
    machine: Machine, place: str, bundle: Bundle, *, told: Callable[[int], None] = lambda sent: None
) -> None:
    """Bring a bundle to `place` (the project's folder on the host; may start with `~/`).

    Nothing happens where it is whole already. `told` hears how many bytes of the stream are sent so far.
    Raises HostError (with the space needed when the disk is full), LostConnection, and Changed when a
    file changed since it was collected; an upload that failed leaves nothing that looks whole.
    """
    token = secrets.token_hex(8)
    end = f".orch-end-{token}"
    with machine.stream(_script(place, bundle, token, end)) as stream:
        answer = _line(stream)
        if answer == "go":
            answer = _send(stream, bundle, end, told) or _line(stream)
        words = stream.read_error().decode("utf-8", "replace").strip()
    _judge(answer, words, machine.host.name, f"{place}/bundles", bundle)


def _script(place: str, bundle: Bundle, token: str, end: str) -> Script:
    text = render(
        "run/bundle.sh.j2",
        place=on_host(place).text,
        digest=bundle.digest,
        token=token,
        end=end,
        needed_kb=_space(bundle) // 1024,
    )
    return Script("bundle", text)


def _space(bundle: Bundle) -> int:
    return sum(-(-entry.size // _BLOCK) * _BLOCK for entry in bundle.entries)


def _send(stream: Stream, bundle: Bundle, end: str, told: Callable[[int], None]) -> str:
    """Send the stream; return what the host said before it was through, if anything."""
    sent = 0
    for piece in bundle.tar(end):
        try:
            stream.write(piece)
        except (OSError, HostError):  # it went away, and may have said why
            return _line(stream)
        sent += len(piece)
        told(sent)
        if early := stream.read(timeout=0):
            return _line(stream, early)
    stream.close_stdin()
    return ""


def _line(stream: Stream, begun: bytes = b"") -> str:
    """Return the next line of the host's answer, or what there is of it."""
    text = begun
    while not text.endswith(b"\n"):
        data = stream.read(timeout=PATIENCE)
        if not data:
            break
        text += data
    return text.decode("utf-8", "replace").strip()


def _judge(answer: str, words: str, host: str, place: str, bundle: Bundle) -> None:
    how, _, rest = answer.partition(" ")
    if how in ("whole", "there"):
        return
    if how == "full":
        free = f", {size(int(rest) * 1024)} free" if rest.strip().isdigit() else ""
        raise HostError(
            f"no space left on device: the code needs {size(_space(bundle))}{free} at {place}", where=host
        )
    if how == "failed":
        raise HostError(f"the code could not be placed in {place}: {rest}", where=host)
    raise LostConnection(f"the upload of the code was cut off{f': {words}' if words else ''}", where=host)
