"""Writing an archive from a host to the places that its files go to, and to nowhere else."""

from __future__ import annotations

import os
import secrets
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator.errors import HostError, OrchError
from orchestrator.files.listing import Item

PART = ".orch-part-"
"""How the name of a file begins until it is whole."""

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Wanted:
    """A file or link on the host (`name` is relative to the folder it is taken from), and where it goes."""

    name: str
    item: Item
    to: Path


class Receiving:
    """Writes the members of an archive to their places; `wanted` is what has not come yet."""

    def __init__(self, host: str, root: Path, wanted: dict[str, Wanted], told: Callable[[int], None]) -> None:
        self.host, self.root, self.wanted, self.told = host, Path(os.path.realpath(root)), wanted, told
        self.notes: list[str] = []
        self._done = 0
        self._placed: dict[str, Path] = {}
        self._made: set[Path] = set()
        self._written: dict[tuple[int, int], Path] = {}
        self._links: list[tuple[Wanted, str]] = []

    def member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Take one member. Raises HostError for one that nobody asked for, OrchError when a write fails."""
        name = member.name.removeprefix("./")
        wanted = self.wanted.pop(name, None)
        if wanted is None:
            raise HostError(f"it sent what nobody asked for: {member.name!r}", where=self.host)
        if member.issym():
            self._links.append((wanted, member.linkname))
        elif member.isreg() or member.islnk():
            with _told(wanted.to):
                self._inside(wanted.to)
                if twin := self._twin(wanted.to):
                    self.notes.append(f"not fetched: {name} (the disk here takes it and {twin} for one file)")
                    return
                self._write(archive, member, wanted.to)
            self._placed[name] = wanted.to
        else:
            self.notes.append(f"not fetched: {name} (no file any more)")

    def links(self) -> None:
        """Make the links, after all files, so that none was written through one of them."""
        for wanted, target in self._links:
            inside = os.path.normpath(os.path.join(os.path.realpath(wanted.to.parent), target))
            if os.path.isabs(target) or not self._holds(Path(inside)):
                self.notes.append(f"not fetched: {wanted.name} (a link to {target})")
                continue
            with _told(wanted.to):
                self._inside(wanted.to)
                part = _part(wanted.to)
                part.symlink_to(target)
                os.utime(part, (wanted.item.mtime, wanted.item.mtime), follow_symlinks=False)
                part.replace(wanted.to)

    def _inside(self, to: Path) -> None:
        """Make the folder of a file; links that are here may not lead it out of the root."""
        if to.parent in self._made:
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        real = Path(os.path.realpath(to.parent))
        if not self._holds(real):
            raise OrchError(f"{to} would land in {real}, outside of {self.root}")
        self._made.add(to.parent)

    def _twin(self, to: Path) -> str | None:
        """Return the name of a file that came before and is this one here: case does not count on macOS."""
        try:
            found = to.lstat()
        except FileNotFoundError:
            return None
        other = self._written.get((found.st_dev, found.st_ino))
        return other.name if other and other != to else None

    def _holds(self, place: Path) -> bool:
        return place == self.root or self.root in place.parents

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
        part = _part(to)
        mode = 0o777 if member.mode & 0o100 else 0o666  # less the umask
        try:
            with (
                self._content(archive, member) as content,
                open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out,
            ):
                while data := content.read(_CHUNK):
                    out.write(data)
                    self._done += len(data)
                    self.told(self._done)
            os.utime(part, (member.mtime, member.mtime))
            part.replace(to)
            written = to.lstat()
            self._written[written.st_dev, written.st_ino] = to
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
        if not member.islnk():
            content = archive.extractfile(member)
            assert content is not None
            return content
        first = self._placed.get(member.linkname.removeprefix("./"))
        if first is None:
            raise HostError(f"{member.name} is a link to what did not come", where=self.host)
        return first.open("rb")


def _part(to: Path) -> Path:
    return to.parent / f"{PART}{secrets.token_hex(8)}"


@contextmanager
def _told(to: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OrchError(f"{to} can't be written: {(error.strerror or str(error)).lower()}") from error
