"""tar, as a stream that depends on nothing but what it holds.

GNU format: GNU tar, busybox and bsdtar all read its long and non-ASCII names; busybox passes over those
of pax. Owner and times are fixed, so the same content gives the same bytes on any machine.
"""

from __future__ import annotations

import sys
import tarfile

MTIME = 946_684_800
"""2000-01-01 UTC: what keeps files out of the years before 1980, which zip can't hold."""

BLOCK = 512


def member(path: str, *, mode: int, size: int = 0, target: str = "", folder: bool = False) -> bytes:
    """Return the header of a file (its content and `padding` follow), a link or a folder."""
    info = tarfile.TarInfo(path)
    info.mtime, info.mode, info.size = MTIME, mode, size
    if target:
        info.type, info.linkname = tarfile.SYMTYPE, target
    elif folder:
        info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.GNU_FORMAT, sys.getfilesystemencoding(), "surrogateescape")


def padding(size: int) -> bytes:
    """Return the zeros that fill a file's last block."""
    return bytes(-size % BLOCK)


TRAILER = bytes(2 * BLOCK)
"""The end of an archive."""
