"""Writing an archive from a host to the places that its files go to, and to nowhere else."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator.errors import HostError, OrchError, reason
from orchestrator.files.listing import Item
from orchestrator.files.part import Part, clear_away

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Wanted:
    """A file or link on the host (`name` is relative to the folder it is taken from), and where it goes."""

    name: str
    item: Item
    to: Path


class Receiving:
    """Puts what a host sends into its places; `wanted` is what has not come yet.

    `told` hears how many bytes are here so far; `came` counts files.
    """

    def __init__(
        self,
        host: str,
        root: os.PathLike[str],
        wanted: dict[str, Wanted],
        told: Callable[[int], None],
    ) -> None:
        self.host, self.root, self.wanted, self._told = host, Path(os.path.realpath(root)), wanted, told
        self.notes: list[str] = []
        self.came = 0
        self._done = 0
        self._placed: dict[str, Path] = {}
        self._made: set[Path] = set()
        self._written: dict[tuple[int, int], Path] = {}
        self._links: list[tuple[Wanted, str]] = []

    def member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Take one member. Raises HostError for one that nobody asked for, OrchError when a write fails."""
        name = member.name.removeprefix("./")
        wanted = self.wanted.get(name)
        if wanted is None:
            raise HostError(f"it sent what nobody asked for: {member.name!r}", where=self.host)
        if member.issym():
            self._links.append((wanted, member.linkname))
        elif member.isreg() or member.islnk():
            with writing(wanted.to):
                if self.makes_room(wanted):
                    self._write(archive, member, wanted.to)
                    self.placed(wanted)
        else:
            self.notes.append(f"not fetched: {name} (no file any more)")
        del self.wanted[name]

    def makes_room(self, wanted: Wanted) -> bool:
        """Make the folder of a file; False, with a note, where the disk has another one in its place.

        Links that are here may not lead it out of the root. Case does not count on macOS.
        """
        self._inside(wanted.to)
        if twin := self._twin(wanted.to):
            self.notes.append(f"not fetched: {wanted.name} (the disk here takes it and {twin} for one file)")
            return False
        return True

    def placed(self, wanted: Wanted, why_not: str | None = None) -> None:
        """Count a file that is in its place, or note why it is not."""
        if why_not:
            self.notes.append(why_not)
            return
        written = wanted.to.lstat()
        self._written[written.st_dev, written.st_ino] = wanted.to
        self._placed[wanted.name] = wanted.to
        self.came += 1

    def tell(self, more: int) -> None:
        """Say that so many more bytes are here."""
        self._done += more
        self._told(self._done)

    def links(self) -> None:
        """Make the links, after all files, so that none was written through one of them."""
        for wanted, target in self._links:
            inside = os.path.normpath(os.path.join(os.path.realpath(wanted.to.parent), target))
            if os.path.isabs(target) or not self._holds(Path(inside)):
                self.notes.append(f"not fetched: {wanted.name} (a link to {target})")
                continue
            with writing(wanted.to):
                self._inside(wanted.to)
                with Part(wanted.to, lasting=False) as part:
                    part.link(target, wanted.item.mtime)

    def _inside(self, to: Path) -> None:
        """Make the folder of a file; links that are here may not lead it out of the root."""
        if to.parent in self._made:
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        real = Path(os.path.realpath(to.parent))
        if not self._holds(real):
            raise OrchError(f"{to} would land in {real}, outside of {self.root}")
        clear_away(real)
        self._made.add(to.parent)

    def _twin(self, to: Path) -> str | None:
        """Return the name of a file that came before and is this one here: case does not count on macOS."""
        try:
            found = to.lstat()
        except FileNotFoundError:
            return None
        other = self._written.get((found.st_dev, found.st_ino))
        if other is None or other == to:
            return None
        with suppress(FileNotFoundError):  # another fetch may have replaced it, and its number be given anew
            return other.name if os.path.samestat(found, other.lstat()) else None
        return None

    def _holds(self, place: Path) -> bool:
        return place == self.root or self.root in place.parents

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
        with self._content(archive, member) as content, Part(to, lasting=False) as part:
            part.begin(0)
            while data := content.read(_CHUNK):
                part.write(data)
                self.tell(len(data))
            part.place(int(member.mtime), executable=bool(member.mode & 0o100))

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
        if not member.islnk():
            content = archive.extractfile(member)
            assert content is not None
            return content
        first = self._placed.get(member.linkname.removeprefix("./"))
        if first is None:
            raise HostError(f"{member.name} is a link to what did not come", where=self.host)
        return first.open("rb")


@contextmanager
def writing(to: Path) -> Iterator[None]:
    """Say in one line why a file can't be written here."""
    try:
        yield
    except OSError as error:
        raise OrchError(f"{to} can't be written: {reason(error)}") from error
