"""The digests of local files, remembered, so that unchanged code costs a stat per file."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.files.part import write_whole
from orchestrator.run.code.ignore import is_private_key

PRIVATE_KEY = "private key"
"""What stands in place of the digest of a file that must not be sent."""

_FRESH = 2.0
"""A file younger than this many seconds may change again within one tick of its clock: not remembered."""

_CHUNK = 1 << 20


class Unsteady(Exception):
    """A file changed while it was read."""


class Digests:
    """The digests of one project's files. A cache that is damaged or can't be written is no cache."""

    def __init__(self, folder: Path | None, top: Path) -> None:
        name = hashlib.sha256(os.fsencode(top)).hexdigest()[:32]
        self._file = folder / "digests" / f"{name}.json" if folder else None
        self._old = _load(self._file) if self._file else {}
        self._new: dict[str, list[object]] = {}
        self._now = time.time()

    def of(self, top: Path, path: str, known: os.stat_result) -> tuple[str, int]:
        """Return a file's SHA-256 (hex, or PRIVATE_KEY) and size; `path` is relative to `top`, the project.

        Raises Unsteady when it changes while it is read, OSError when it can't be read.
        """
        old = self._old.get(path)
        if isinstance(old, list) and old[:-1] == _identity(known) and isinstance(old[-1], str):
            self._new[path] = old
            return old[-1], known.st_size
        digest, seen = _read(top / path)
        if self._now - max(seen.st_mtime, seen.st_ctime) > _FRESH:
            self._new[path] = [*_identity(seen), digest]
        return digest, seen.st_size

    def save(self) -> None:
        """Keep what was learned, for the files that still exist."""
        if self._file is None or self._new == self._old:
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(self._new), 0o600)


def _identity(status: os.stat_result) -> list[object]:
    # With ctime, a file that was replaced under its old time and size is seen too.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _load(file: Path) -> dict[str, list[object]]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _read(file: Path) -> tuple[str, os.stat_result]:
    total = hashlib.sha256()
    # Non-blocking: a file that became a fifo since it was listed must not hold us.
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as source:
        before = os.fstat(source.fileno())
        data = source.read(_CHUNK)
        key = is_private_key(data)
        while data:
            total.update(data)
            data = source.read(_CHUNK)
        after = os.fstat(source.fileno())
    if _identity(before) != _identity(after):
        raise Unsteady(file)
    return PRIVATE_KEY if key else total.hexdigest(), after
