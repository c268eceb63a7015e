"""Which copies to hosts were not finished: the token by which each goes on, as this machine remembers it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

_OLD = 8 * 86_400.0  # seconds: the host has cleared the part away by then


@contextlib.contextmanager
def token(folder: Path, *what: str) -> Iterator[str]:
    """Yield the token of a copy: that of the last try where the block ended by an error.

    A copy that goes on at the same time in another process, and a memory that can't be written, cost only
    that.
    """
    fresh = secrets.token_hex(8)
    path = folder / hashlib.sha256("\0".join(what).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _forget(folder)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield fresh
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield fresh
            return
        known = os.read(file, 64).decode("ascii", "replace")
        if len(known) != len(fresh) or not known.isalnum():
            known = fresh
            os.ftruncate(file, 0)
            os.pwrite(file, known.encode(), 0)
        yield known
        with contextlib.suppress(OSError):
            path.unlink()
    finally:
        os.close(file)


def _forget(folder: Path) -> None:
    """Forget the copies that nobody went on with."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _OLD:
                path.unlink()
