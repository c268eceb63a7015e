"""What is here to be sent, and its bytes: those that were listed, or none."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchError, UsageError, reason
from orchestrator.files.listing import Item, kind_of

_CHUNK = 1 << 18


class Changed(Exception):
    """A file is not what it was when it was listed; the message says which."""


@dataclass(frozen=True)
class Local:
    """A local file or folder, listed as `listing` lists those of a host; `notes` say what can't be sent."""

    source: Path
    items: tuple[Item, ...]
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(item.size for item in self.items if item.kind == "file")

    def place(self, item: Item) -> Path:
        """Return where an item lies."""
        return self.source / item.path if item.path else self.source


def local(source: Path) -> Local:
    """List what is to be copied. Raises UsageError when there is nothing, or a link leads out of it."""
    items: list[Item] = []
    notes: list[str] = []
    pending = [""]
    while pending:
        path = pending.pop()
        place = source / path
        try:
            status = os.lstat(place) if path else os.stat(place)
            if stat.S_ISDIR(status.st_mode):
                pending += [os.path.join(path, name) for name in os.listdir(place)]
        except OSError as error:
            why = reason(error)
            if not path:
                raise UsageError(f"{source}: {why}") from error
            notes.append(f"not sent: {path} ({why})")
            continue
        if stat.S_ISLNK(status.st_mode):
            _check_link(source, path)
        item = _item(path, status)
        if item.kind == "other" and not path:
            raise UsageError(f"{source} is neither a file nor a folder")
        if item.kind == "other":
            notes.append(f"not sent: {path} (neither file nor folder)")
        elif item.kind == "file" and not os.access(place, os.R_OK):
            notes.append(f"not sent: {path or source} (permission denied)")
        else:
            items.append(item)
    if not items:
        raise UsageError(f"{source} can't be read", hint=f"{len(notes)} of its files are for others alone.")
    return Local(source, tuple(sorted(items, key=lambda item: os.fsencode(item.path))), tuple(notes))


def _item(path: str, status: os.stat_result) -> Item:
    mode, mtime = status.st_mode, int(status.st_mtime)
    return Item(path, kind_of(mode), mode & 0o777, status.st_size, mtime, status.st_mtime_ns)


def _check_link(source: Path, path: str) -> None:
    target = os.readlink(source / path)
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if os.path.isabs(target) or inside.split("/")[0] == "..":
        raise UsageError(
            f"{source / path} is a link to {target}, which is not in {source}",
            hint="Replace it by what it points to, or copy that by itself.",
        )


def content(file: Path, item: Item, start: int = 0) -> Iterator[bytes]:
    """Yield a file's bytes as it was when it was listed. Raises Changed when it is another one, OrchError."""
    try:
        # A FIFO that took its place must not hold us.
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb", buffering=0) as source:
            _check(file, item, opened)
            source.seek(start)
            left = item.size - start
            while left and (data := source.read(min(_CHUNK, left))):
                left -= len(data)
                yield data
            _check(file, item, opened)
    except OSError as error:
        raise OrchError(f"{file} can't be read: {reason(error)}") from error


def _check(file: Path, item: Item, opened: int) -> None:
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != (item.size, item.version):
        raise Changed(str(file))


def digest(file: Path, size: int) -> str:
    """Return the SHA-256 of a file's first bytes, in hex digits."""
    total = hashlib.sha256()
    with file.open("rb", buffering=0) as source:
        while size and (data := source.read(min(_CHUNK, size))):
            total.update(data)
            size -= len(data)
    return total.hexdigest()
