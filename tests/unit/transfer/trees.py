"""Folders with files of all kinds, to be sent and fetched."""

from __future__ import annotations

import os
from pathlib import Path

ODD = ("-rf", "new\nline", "it's", "é", "a b", os.fsdecode(b"latin\xe9"), "x" * 200)


def fill(folder: Path, **files: str) -> None:
    for name, content in files.items():
        put(folder / name, content)


def put(place: Path, content: str | bytes, mtime: int = 1_700_000_000) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(place, (mtime, mtime))
    return place


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): os.fsencode(os.readlink(p)) if p.is_symlink() else p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_symlink() or not p.is_dir()
    }
