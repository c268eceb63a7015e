"""An immutable snapshot of the user's code, named by its content digest.

The digest counts names, contents, executable bits and link targets, nothing else: it is the same on any
machine. It is the SHA-256 over one record per entry, in the order of the names' bytes: its kind (`f`, `x`
for executable, `l`, `d`), then name and SHA-256 (link: target), each as `<length>:<bytes>`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.errors import OrchError, reason
from orchestrator.files.archive import TRAILER, Differs, content, gathered, member, padding, time_of
from orchestrator.inventory.find import cache_folder
from orchestrator.run.code.digests import PRIVATE_KEY, Digests, Unsteady
from orchestrator.run.code.walk import Found, Kind, Walk, check_size, leave_out, walk

MAX_BYTES = 200_000_000
"""More than this is hardly code; `--max-size` allows it."""

_TRIES = 3


class Changed(OrchError):
    """A file is not what it was when the bundle was collected: collect again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while it was read", hint=f"Try again. {leave_out(path)}")


@dataclass(frozen=True)
class Entry:
    """One file, link or empty folder. `path` uses `/`; bytes that are no text are surrogate escapes."""

    path: str
    kind: Kind
    executable: bool = False
    size: int = 0
    sha256: str = ""
    target: str = ""

    @property
    def record(self) -> bytes:
        """What the bundle's digest counts of this entry."""
        letter = b"x" if self.executable else self.kind[:1].encode()
        parts = (os.fsencode(self.path), os.fsencode(self.target) if self.target else self.sha256.encode())
        return letter + b"".join(b"%d:%b" % (len(part), part) for part in parts)


@dataclass(frozen=True)
class Bundle:
    """The entries in the order of their names' bytes. `notes` are lines about what can't be sent."""

    top: Path
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The content digest, 64 hex digits."""
        return hashlib.sha256(b"".join(entry.record for entry in self.entries)).hexdigest()

    @property
    def short(self) -> str:
        """The digest as people see it."""
        return self.digest[:6]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    @property
    def count(self) -> int:
        """Number of files and links."""
        return sum(entry.kind != "dir" for entry in self.entries)

    @cached_property
    def _paths(self) -> frozenset[str]:
        paths = {entry.path for entry in self.entries}
        for entry in self.entries:
            paths.update(_parents(entry.path))
        return frozenset(paths)

    def holds(self, path: str) -> bool:
        """Tell whether a file, link or folder of this path (relative to the top) is sent."""
        return path in (".", "") or path in self._paths

    def tar(self, end: str = "", without: Container[str] = ()) -> Iterator[bytes]:
        """Return the bundle as a tar stream, the same bytes for the same digest; an empty file `end` is last.

        Files whose paths are in `without` are left out.
        Files are read-only in it and folders writable by their owner. Raises Changed when a file is no
        longer what was collected; what was yielded until then has no end.
        """
        return gathered(self._pieces(end, without))

    def _pieces(self, end: str, without: Container[str]) -> Iterator[bytes]:
        made: set[str] = set()
        for entry in self.entries:
            if entry.path in without:
                continue
            for folder in (*_parents(entry.path), *([entry.path] if entry.kind == "dir" else [])):
                if folder not in made:
                    made.add(folder)
                    yield member(folder, mode=0o755, folder=True)
            if entry.kind == "link":
                yield member(entry.path, mode=0o777, target=entry.target)
            elif entry.kind == "file":
                mode = 0o555 if entry.executable else 0o444
                yield member(entry.path, mode=mode, size=entry.size, mtime=time_of(entry.sha256))
                yield from self.content(entry)
                yield padding(entry.size)
        if end:
            yield member(end, mode=0o444)
        yield TRAILER

    def content(self, entry: Entry) -> Iterator[bytes]:
        """Yield the bytes of a file. Raises Changed; what was yielded until then is of no use."""
        try:
            yield from content(self.top / entry.path, entry.size, entry.sha256)
        except Differs as error:
            raise Changed(entry.path) from error


def collect(folder: Path, *, max_bytes: int = MAX_BYTES, cache: Path | None = None) -> Bundle:
    """Take the snapshot of a project's top folder.

    `cache` is the folder that remembers digests; None is orch's own. Raises UsageError for the home folder
    and `/`, for links that leave the folder and above `max_bytes`, ConfigError for a bad `.orchignore`,
    Changed when a file does not hold still.
    """
    found = walk(folder)
    check_size(found, max_bytes)
    digests = Digests(cache or cache_folder(os.environ), folder)
    notes = list(found.notes)
    entries = [entry for item in found.found if (entry := _entry(found, item, digests, notes))]
    digests.save()
    return Bundle(folder, tuple(sorted(entries, key=lambda e: os.fsencode(e.path))), tuple(notes))


def _entry(within: Walk, item: Found, digests: Digests, notes: list[str]) -> Entry | None:
    if item.kind != "file":
        return Entry(item.path, item.kind, target=item.target)
    for _ in range(_TRIES):
        try:
            digest, size = digests.of(within.top, item.path, item.status)
        except Unsteady:
            continue
        except FileNotFoundError:  # gone since it was listed
            return None
        except OSError as error:
            notes.append(f"not sent: {item.path} ({reason(error)})")
            return None
        if digest == PRIVATE_KEY:
            notes.append(f"not sent: {item.path} (a private key)")
            return None
        return Entry(item.path, "file", bool(item.status.st_mode & 0o100), size, digest)
    raise Changed(item.path)


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:n]) for n in range(1, len(parts)))
