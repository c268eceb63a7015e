"""An end of a copy: a .tar file here."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.container.image.copying.archive import read_archive
from orchestrator.container.image.copying.cargo import Cargo
from orchestrator.container.image.copying.end import COPY, THERE, loading, saving
from orchestrator.errors import Busy, OrchError, Refused, reason
from orchestrator.facts.copying import CopyingReport
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, quote
from orchestrator.units import size


@dataclass
class File:
    """A .tar here. `machine` is this one."""

    machine: Machine
    report: CopyingReport
    path: Path

    @property
    def title(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def part(self) -> Path:
        """Where it is written until it is whole."""
        return self.path.with_name(f"{self.path.name}.part")

    def save(self, what: Cargo, how: str) -> Script:
        """Return the script that writes an image, packed, to stdout."""
        return saving(f"cat {quote(str(self.path))}", how, self.report)

    def need(self, what: Cargo, *, overwrite: bool) -> str:
        """Return what it needs. Raises Refused for a file that is there, OrchError for no room."""
        if self.path.exists() and not overwrite:
            self._check_same(what)
            return THERE
        self._check_room(what)
        return COPY

    def _check_same(self, what: Cargo) -> None:
        with contextlib.suppress(OrchError):
            found = read_archive(self.path)
            if what.same(found) and set(what.names) <= set(found.names):
                return
        raise Refused(f"{self.path} is there, and is not {what.title}", hint="Replace it by --overwrite.")

    def _check_room(self, what: Cargo) -> None:
        try:
            room = os.statvfs(self.path.parent)
        except OSError as error:
            raise OrchError(f"{self.path.parent}: {reason(error)}") from error
        free = room.f_bavail * room.f_frsize
        if what.size > free:
            raise OrchError(f"{self.path}: {size(what.size)} are needed, and {size(free)} are free")

    def load(self, how: str) -> Script:
        """Return the script that takes an image from stdin."""
        return loading(f"cat > {quote(str(self.part))}", how, self.report)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Hold the part file: what one that was killed left is written over. Raises Busy, OrchError."""
        try:
            number = os.open(self.part, os.O_WRONLY | os.O_CREAT, 0o644)
        except OSError as error:
            raise OrchError(f"{self.part}: {reason(error)}") from error
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            raise Busy(f"{self.path} is being written by another orch") from None
        try:
            yield
        except BaseException:
            self.part.unlink(missing_ok=True)
            raise
        finally:
            os.close(number)

    def settle(self, what: Cargo, said: str) -> None:
        """Let the file take its place when it is whole. Raises OrchError."""
        try:
            found = read_archive(self.part)
        except OrchError as error:
            raise OrchError(f"{self.path} could not be written whole", details=said or None) from error
        if not what.same(found):
            raise OrchError(f"what came is not {what.title}", hint="Copy it again.")
        os.replace(self.part, self.path)
