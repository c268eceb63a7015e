"""The commit of the code, as git tells it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 10.0
"""Seconds for git to look through the working tree."""


@dataclass(frozen=True)
class Commit:
    """The commit checked out, its branch (None: detached), and whether the files differ from it."""

    commit: str
    branch: str | None
    dirty: bool


def git_environment() -> dict[str, str]:
    """Return the environment in which git takes no lock and speaks English."""
    return {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def commit_of(top: Path) -> Commit | None:
    """Ask git for the commit of a folder; None without git, a repository, a commit, or an answer in time."""
    command = ["git", "-C", str(top), "status", "--porcelain=v2", "--branch", "-z", "--", "."]
    try:
        asked = subprocess.run(
            command,
            capture_output=True,
            check=True,
            timeout=PATIENCE,
            env=git_environment(),
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
