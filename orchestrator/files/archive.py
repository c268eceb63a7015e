"""tar, as a stream that depends on nothing but what it holds.

GNU format: GNU tar, busybox and bsdtar all read its long and non-ASCII names; busybox passes over those
of pax. The owner is fixed and times follow from the content, so the same content gives the same bytes
on any machine.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

EPOCH = 946_684_800
"""2000-01-01 UTC: the time of what has no content. zip can't hold years before 1980."""

SENT = EPOCH + 10 * 366 * 86_400
"""No file that was sent has a later time, and none that a run wrote an earlier one."""

BLOCK = 512


def time_of(sha256: str) -> int:
    """Return the time that a file gets: another for another content, in the years 2000 to 2008.

    Python takes a .pyc for fresh by the time and size of its source: with one time for all, an edit that
    keeps the size would not be seen where code is laid over old code.
    """
    return EPOCH + int(sha256[:7], 16)


def member(
    path: str, *, mode: int, size: int = 0, mtime: int = EPOCH, target: str = "", folder: bool = False
) -> bytes:
    """Return the header of a file (its content and `padding` follow), a link or a folder."""
    info = tarfile.TarInfo(path)
    info.mtime, info.mode, info.size = mtime, mode, size
    if target:
        info.type, info.linkname = tarfile.SYMTYPE, target
    elif folder:
        info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.GNU_FORMAT, sys.getfilesystemencoding(), "surrogateescape")


def padding(size: int) -> bytes:
    """Return the zeros that fill a file's last block."""
    return bytes(-size % BLOCK)


class Differs(Exception):
    """A file is not what it was when its size and digest were taken."""


_CHUNK = 1 << 20


def content(file: Path, size: int, sha256: str) -> Iterator[bytes]:
    """Yield a file's bytes. Raises Differs; what was yielded until then is of no use."""
    total, left = hashlib.sha256(), size
    try:
        with open(file, "rb", buffering=0) as opened:
            while data := opened.read(min(_CHUNK, left + 1)):
                total.update(data)
                left -= len(data)
                if left < 0:
                    raise Differs
                yield data
    except OSError as error:
        raise Differs from error
    if left or total.hexdigest() != sha256:
        raise Differs


TRAILER = bytes(2 * BLOCK)
"""The end of an archive."""

_GATHERED = 1 << 18


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces to such of 256 kB: a write to the network for each header costs too much."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if len(buffer) >= _GATHERED:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def incoming(read: Callable[[int], bytes | None]) -> tarfile.TarFile:
    """Open an archive that comes bit by bit; `read` is called with the bytes that are asked for at most."""
    return tarfile.open(
        fileobj=_Incoming(read), mode="r|", bufsize=_GATHERED, errors="surrogateescape", ignore_zeros=True
    )


class _Incoming(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        self._read = read

    def read(self, size: int = -1) -> bytes:
        return self._read(size if size > 0 else _GATHERED) or b""
