"""What is known of the code beside its content: its commit, and what a command names that isn't sent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.run.code.bundle import Bundle

_PATIENCE = 10.0
"""Seconds for git to look through the working tree."""


@dataclass(frozen=True)
class Commit:
    """The commit checked out, its branch (None: detached), and whether the files differ from it."""

    commit: str
    branch: str | None
    dirty: bool


def commit_of(top: Path) -> Commit | None:
    """Ask git for the commit of a folder; None without git, a repository, a commit, or an answer in time."""
    command = ["git", "-C", str(top), "status", "--porcelain=v2", "--branch", "-z", "--", "."]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        asked = subprocess.run(
            command,
            capture_output=True,
            check=True,
            timeout=_PATIENCE,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _parse(asked.stdout.decode("utf-8", "replace").split("\0"))


def _parse(fields: list[str]) -> Commit | None:
    """Read `git status --porcelain=v2 --branch -z` (git-status(1))."""
    heads = dict(f[2:].split(" ", 1) for f in fields if f.startswith("# branch."))
    commit, branch = heads.get("branch.oid", ""), heads.get("branch.head")
    if not commit or commit == "(initial)":
        return None
    dirty = any(f and not f.startswith("# ") for f in fields)
    return Commit(commit, None if branch == "(detached)" else branch, dirty)


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
