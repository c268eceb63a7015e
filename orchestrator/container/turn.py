"""One change at a time of what is deployed for a project: deploys, downs and launches have turns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from orchestrator.container.identity import caller
from orchestrator.errors import Busy, LostConnection
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from orchestrator.render import render

LOCK = ".turn"
"""The file in the project's folder that is locked: by a change for itself, by launches together."""

_ANSWER_SECONDS = 60.0


@contextlib.contextmanager
def turn(machine: Machine, place: str, undo: Script | None = None) -> Iterator[None]:
    """Keep other changes and launches of the project in `place` (absolute) away during the block.

    Where the block does not come to its end (Ctrl-C, a cut connection, an error) the host carries out `undo`
    by itself. Raises Busy while somebody else has the turn.
    """
    undoing = undo.text if undo else ""
    text = render("container/turn.sh.j2", place=place, lock=LOCK, by=caller(), undo=undoing)
    with machine.stream(Script("turn", text)) as stream:
        said = b""
        while not said.endswith(b"\n"):
            piece = stream.read(timeout=_ANSWER_SECONDS)
            if not piece:
                raise LostConnection("turn: no answer", where=machine.host.name)
            said += piece
        word, _, who = said.decode("utf-8", "replace").strip().partition(" ")
        if word != "yours":
            by = f" by {who}" if who else ""
            raise Busy(
                f"another deploy, down or launch{by} is going on", where=machine.host.name, hint="Try again."
            )
        yield
        with contextlib.suppress(LostConnection):  # the host looks whether it was done
            stream.write(b"done\n")
