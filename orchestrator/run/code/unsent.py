"""What a command names that is here, and is not sent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.run.code.bundle import Bundle


def unsent(words: Sequence[str], cwd: Path, bundle: Bundle) -> list[str]:
    """Return what a command names that exists here and will not be where the command runs.

    Looked at: the words, and what follows `=` in them. A path outside the project counts when it is
    relative or in the person's home; others (`/usr/bin/env`, `/data/x`) may well exist on the host.
    """
    return [path for word in words for path in _paths(word) if _is_unsent(path, cwd, bundle)]


def _paths(word: str) -> Iterator[str]:
    if word and not word.startswith("-"):
        yield word
    _, found, value = word.partition("=")
    if found and value:
        yield value


def _is_unsent(path: str, cwd: Path, bundle: Bundle) -> bool:
    try:
        place = os.path.normpath(cwd / path)
        if not os.path.lexists(place):
            return False
    except ValueError:  # a NUL in a word
        return False
    inside = _relative(place, bundle.top)
    if os.path.isabs(path):
        return inside is not None or _relative(place, Path.home()) is not None
    return inside is None or not bundle.holds(inside)


def _relative(place: str, folder: Path) -> str | None:
    relative = os.path.relpath(place, folder)
    return None if relative.split("/")[0] == ".." else relative
