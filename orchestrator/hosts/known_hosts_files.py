"""The lines of known_hosts files about one host: each file is parsed once for all hosts, until it changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.hosts.known_hosts import Entry, parse

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True)
class _File:
    """A file as it was read: its entries in order, and which of them name a host plainly."""

    stamp: Stamp | None = None
    entries: tuple[Entry, ...] = ()
    plain: Mapping[str, list[int]] = field(default_factory=dict)
    other: tuple[int, ...] = ()
    """Entries with a hash, a wildcard or a negation: only trying them tells."""

    @classmethod
    def of(cls, text: str, path: str, stamp: Stamp) -> _File:
        entries = tuple(parse(text, path))
        plain: dict[str, list[int]] = {}
        other = []
        for number, entry in enumerate(entries):
            if any(c in pattern for pattern in entry.patterns for c in "|!*?"):
                other.append(number)
                continue
            for name in {pattern.lower() for pattern in entry.patterns}:
                plain.setdefault(name, []).append(number)
        return cls(stamp, entries, plain, tuple(other))

    def about(self, name: str) -> list[Entry]:
        found = [n for n in self.other if self.entries[n].matches(name)]
        return [self.entries[n] for n in sorted(found + self.plain.get(name.lower(), []))]


_files: dict[str, _File] = {}
_lock = threading.Lock()


def about(paths: Iterable[str], name: str) -> list[Entry]:
    """Return what files say about a host (see `known_hosts.host_name`), one file after the other.

    A missing file is empty. Raises ConfigError when one can't be read.
    """
    return [entry for path in paths for entry in _read(path).about(name)]


def entries(path: str) -> tuple[Entry, ...]:
    """Return all lines of a file, none of a missing one. Raises ConfigError when it can't be read."""
    return _read(path).entries


def _read(path: str) -> _File:
    with _lock:
        try:
            stamp = _stamp(path)
            known = _files.get(path, _File())
            if known.stamp != stamp:
                known = _File.of(Path(path).read_text(encoding="utf-8", errors="replace"), path, stamp)
                _files[path] = known
            return known
        except (FileNotFoundError, NotADirectoryError):
            return _File()
        except OSError as error:
            raise ConfigError(f"can't be read: {error.strerror}", where=path) from error


def _stamp(path: str) -> Stamp:
    """Return what changes with a file. Taken before the file is read: what comes later is seen next time."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
