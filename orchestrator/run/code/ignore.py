"""What of a project is never sent, and what `.gitignore` and `.orchignore` leave out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pathspec import GitIgnoreSpec

from orchestrator.errors import ConfigError
from orchestrator.run.ids import ID

_NO_PATTERN = (ValueError, re.error)  # the second for what makes a regex that is none: `[z-a]`
_SHOWN = 60  # characters of a line that is no pattern

ORCHIGNORE = ".orchignore"
"""The project's own list, at its top. gitignore syntax; it has the last word over `.gitignore`."""

FETCHED = ".orch-fetched"
"""Lies in a folder that a fetch made: what is in it came from a host, and is not sent back as code."""

_NEVER = re.compile(
    r"(\.git|\.DS_Store|__pycache__|node_modules|hosts\.ini|\.env(\..*)?|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|\.orch-part-[\w-]+)\Z",
    re.DOTALL,
)
_KEY_HEAD = re.compile(rb"\s*(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----|PuTTY-User-Key-File-)")


def never_sent(name: str) -> bool:
    """Tell whether a file or folder of this name holds secrets, what any machine makes for itself, or a run.

    A hosts.ini may hold tokens in `env`. A fetched run lies in a folder with its id for a name.
    """
    return bool(_NEVER.match(name) or ID.match(name))


def is_private_key(head: bytes) -> bool:
    """Tell whether content begins like a private key (PEM, OpenSSH, PuTTY)."""
    return bool(_KEY_HEAD.match(head))


@dataclass(frozen=True)
class Layer:
    """One file of patterns and the folder (`a/b/`, or empty) that they are relative to."""

    base: str
    spec: GitIgnoreSpec

    def says(self, path: str) -> bool | None:
        """Return True to leave a path out, False to keep it, None when no pattern matches."""
        return self.spec.check_file(path[len(self.base) :]).include


@dataclass(frozen=True)
class Rules:
    """The patterns in force in one folder. `git` is weakest first; folders end in `/`."""

    own: Layer
    reopened: tuple[tuple[str, ...], ...] = ()
    git: tuple[Layer, ...] = ()
    inside_git: bool = False
    hidden: bool = False

    def entering(self, folder: Path, base: str, names: Iterable[str]) -> Rules:
        """Return the rules inside `folder`, whose entries are `names`: its own `.gitignore` comes last."""
        git, inside = self.git, self.inside_git
        if ".git" in names:  # the top, or a repository inside it, where the outer one's patterns end
            git, inside = (Layer(base, _read(_exclude_file(folder / ".git"))),), True
        if inside and ".gitignore" in names:
            git = (*git, Layer(base, _read(folder / ".gitignore")))
        return Rules(self.own, self.reopened, git, inside, self.hidden)

    def left_out(self, path: str) -> bool:
        """Tell whether a path is left out, its parents being kept."""
        verdict = self.own.says(path)
        if verdict is not None:
            return verdict
        if self.hidden:
            return True
        return next((said for layer in reversed(self.git) if (said := layer.says(path)) is not None), False)

    def beneath(self, folder: str) -> Rules | None:
        """Return the rules beneath a folder; None when nothing in it can be kept.

        git never looks into a folder that is left out. `.orchignore` may name something in it all the
        same (`!data/small.csv`), so such a folder is entered and everything else in it is left out.
        """
        if not self.left_out(folder):
            return Rules(self.own, self.reopened, self.git, self.inside_git)
        if any(_leads_to(folder, pattern) for pattern in self.reopened):
            return Rules(self.own, self.reopened, self.git, self.inside_git, hidden=True)
        return None


def rules_of(top: Path) -> Rules:
    """Read a project's `.orchignore`. Raises ConfigError with file:line when a pattern is no pattern."""
    file = top / ORCHIGNORE
    lines = _lines(file)
    for number, line in enumerate(lines, 1):
        if not _valid(line):
            raise ConfigError(f"{line[:_SHOWN]!r} is no pattern", where=f"{file}:{number}")
    reopened = tuple(
        tuple(line[1:].strip("/").split("/"))
        for line in (text.rstrip() for text in lines)
        if line.startswith("!") and "/" in line[1:].rstrip("/")
    )
    return Rules(Layer("", GitIgnoreSpec.from_lines(lines)), reopened)


def _leads_to(folder: str, pattern: tuple[str, ...]) -> bool:
    parts = folder.rstrip("/").split("/")
    for part, wanted in zip(parts, pattern, strict=False):
        if wanted == "**":
            return True
        if not fnmatchcase(part, wanted):
            return False
    return len(pattern) > len(parts)


def _lines(file: Path) -> list[str]:
    try:
        if not file.is_file():  # a FIFO would be waited for
            return []
        text = file.read_bytes().decode("utf-8-sig", "surrogateescape")
    except (OSError, ValueError):  # ValueError: a NUL in a path that a broken .git names
        return []
    return [line.removesuffix("\r") for line in text.split("\n")]


def _read(file: Path) -> GitIgnoreSpec:
    """Read patterns as git does: a line that is no pattern is passed over."""
    lines = _lines(file)
    try:
        return GitIgnoreSpec.from_lines(lines)
    except _NO_PATTERN:
        return GitIgnoreSpec.from_lines(line for line in lines if _valid(line))


def _valid(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except _NO_PATTERN:
        return False
    return True


def _exclude_file(dot_git: Path) -> Path:
    """Return `.git/info/exclude`; a worktree's `.git` is a file that names the folder of the repository."""
    if dot_git.is_file():
        folder = dot_git.parent / "".join(_lines(dot_git)).removeprefix("gitdir:").strip()
        common = _lines(folder / "commondir")
        dot_git = folder / common[0] if common else folder
    return dot_git / "info" / "exclude"
