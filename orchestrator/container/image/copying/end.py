"""An end of a copy, whichever it is: what it is asked, and what it needs to have an image."""

from __future__ import annotations

import contextlib
from typing import Protocol

from orchestrator.container.image.copying.cargo import Cargo
from orchestrator.container.image.copying.packing import packer, unpacker
from orchestrator.facts.copying import CopyingReport
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from orchestrator.render import render

THERE, NAME, COPY = "there", "name", "copy"
"""What a place needs: nothing, only the names, or all of it."""


class End(Protocol):
    """One end. `title`: what it is called to people."""

    machine: Machine
    report: CopyingReport

    @property
    def title(self) -> str: ...  # noqa: D102

    def save(self, what: Cargo, how: str) -> Script:
        """Return the script that writes an image, packed, to stdout."""

    def need(self, what: Cargo, *, overwrite: bool) -> str:
        """Return what it needs to have an image. Raises Refused, or HostError where it can't take it."""

    def load(self, how: str) -> Script:
        """Return the script that takes an image from stdin."""

    def receiving(self) -> contextlib.AbstractContextManager[None]:
        """Keep others away while it receives."""

    def settle(self, what: Cargo, said: str) -> None:
        """Give what was received its names. Raises HostError where it is not what was sent."""


def saving(read: str, how: str, report: CopyingReport) -> Script:
    """Return the script that writes, packed, what the shell text `read` prints."""
    return Script("image save", render("container/image_save.sh.j2", read=read, pack=packer(how, report)))


def loading(take: str, how: str, report: CopyingReport) -> Script:
    """Return the script that gives the shell text `take` what comes, unpacked."""
    text = render("container/image_load.sh.j2", take=take, unpack=unpacker(how, report))
    return Script("image load", text)
