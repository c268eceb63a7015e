"""Code that ships with orch, as a bundle."""

from __future__ import annotations

import atexit
import hashlib
import os
from contextlib import ExitStack
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.run.code.bundle import Bundle, Entry

if TYPE_CHECKING:
    from importlib.abc import Traversable  # importlib.resources.abc is 3.11


def shipped(place: Traversable | Path, *, folder: bool) -> Bundle:
    """Return the files of a folder that ships with orch; with `folder` as that folder, else what is in it."""
    unpacked = ExitStack()  # where orch is a .zip: the bundle is read when it is sent
    atexit.register(unpacked.close)
    source = unpacked.enter_context(as_file(place))
    top = source.parent if folder else source
    own = (file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    entries = sorted((_entry(top, file) for file in own), key=lambda entry: os.fsencode(entry.path))
    return Bundle(top, tuple(entries))


def _entry(top: Path, file: Path) -> Entry:
    data, executable = file.read_bytes(), bool(file.stat().st_mode & 0o100)
    path = file.relative_to(top).as_posix()
    return Entry(path, "file", executable, len(data), hashlib.sha256(data).hexdigest())
