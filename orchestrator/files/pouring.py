"""Sending a long stream to a host that may answer before its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orchestrator.errors import HostError
from orchestrator.hosts.base import Stream

PATIENCE = 120.0
"""Seconds for the host to put the last files on its disk."""


def pour(stream: Stream, pieces: Iterable[bytes], told: Callable[[int], None], *, more: bool = False) -> str:
    """Send pieces and the end of stdin; return the line that the host says, early or at the end.

    `more`: the end of stdin is not sent, as more is to come. `told` hears how many bytes are sent so far.
    The line is empty when the host went away.
    """
    sent = 0
    for piece in pieces:
        try:
            stream.write(piece)
        except (OSError, HostError):  # it went away, and may have said why
            return answer(stream)
        sent += len(piece)
        told(sent)
        if early := stream.read(timeout=0):
            return answer(stream, early)
    if not more:
        stream.close_stdin()
    return answer(stream)


def answer(stream: Stream, begun: bytes = b"") -> str:
    """Return the next line of the host's answer, or what there is of it."""
    text = begun
    while not text.endswith(b"\n"):
        data = stream.read(timeout=PATIENCE)
        if not data:
            break
        text += data
    return text.decode("utf-8", "replace").strip()
