"""One change at a time of what is deployed for a project: deploys, downs and launches have turns."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Iterator

from orchestrator.container.identity import caller
from orchestrator.container.image.build import Told
from orchestrator.errors import Busy, HostError, LostConnection
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script
from orchestrator.render import render

LOCK = ".turn"
"""The file in P/hosts/<machine>/ that is locked: by a change for itself, by launches together."""

BUILD_LOCK = ".build"
"""The same for builds of the image: they take long, and keep no launch away."""

PATIENCE, BUILD_PATIENCE = 60, 3600
"""Seconds that a change, or a build, waits for another one's end."""

HEARTBEAT = 15.0
"""Seconds between two signs of life; a holder that gives none for 60 s has lost its turn (turn.sh.j2)."""


@contextlib.contextmanager
def turn(
    machine: Machine,
    place: str,
    undo: Script | None = None,
    *,
    what: str = "deploy",
    lock: str = LOCK,
    told: Told = lambda _: None,
) -> Iterator[str]:
    """Keep other changes and launches of the project in `place` (absolute) away during the block.

    `what` it is, for people: deploy, down, prune or build; with BUILD_LOCK it keeps only builds away.

    Yields the token that the scripts of this change show (held.sh.j2). Where the block does not come to its
    end (Ctrl-C, a cut connection, an error) the host carries out `undo` by itself. `told` hears whom it waits
    for. Raises Busy while somebody else has the turn, HostError where there can be none.
    """
    token = secrets.token_hex(8)
    patience = BUILD_PATIENCE if what == "build" else PATIENCE
    text = render(
        "container/turn.sh.j2",
        place=place,
        lock=lock,
        token=token,
        words=f"{what} by {caller()}",
        patience=patience,
        undo=undo.text if undo else "",
    )
    with machine.stream(Script("turn", text)) as stream:
        _take(machine.host.name, stream, patience, told)
        with _heard(stream):
            yield token
        with contextlib.suppress(LostConnection):  # the host looks whether it was done
            stream.write(b"done\n")


_SHELLS_OWN = re.compile(r"^\S*sh: (?:(?:line )?\d+: )?(?:eval: )?")
"""What a shell says before what is wrong: `/bin/sh: 17: eval: cannot create ...`."""


def _take(host: str, stream: Stream, patience: float, told: Told) -> None:
    for line in _lines(host, stream, patience):
        word, _, rest = line.partition(" ")
        if word == "yours":
            return
        if word == "wait":
            told(f"wait for the end of {_whose(rest)}")
        elif word == "taken":
            raise Busy(f"{_whose(rest)} is going on", where=host, hint="Try again when it is done.")
        else:
            raise HostError(_SHELLS_OWN.sub("", rest) or line, where=host)


def _whose(words: str) -> str:
    """Return who has the turn: a change says so (holder.sh.j2), launches don't."""
    return f"a {words}" if words else "a launch"


def _lines(host: str, stream: Stream, patience: float) -> Iterator[str]:
    said = b""
    while True:
        piece = stream.read(timeout=patience + 60.0)
        if not piece:
            raise LostConnection("turn: no answer", where=host)
        *lines, said = (said + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


@contextlib.contextmanager
def _heard(stream: Stream) -> Iterator[None]:
    """Give signs of life during the block."""
    over = threading.Event()

    def beat() -> None:
        with contextlib.suppress(LostConnection, OSError, ValueError):
            while not over.wait(HEARTBEAT):
                stream.write(b"alive\n")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
