"""`.dockerignore` as Docker reads it: which paths of a build context are left out.

Unlike `.gitignore`: every pattern starts at the context's top, the last one that matches a path or a folder
above it decides, and `!` brings back what is in a folder that is left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """One line. `text` is relative to the top, without the `!`."""

    text: str
    keeps: bool
    regex: re.Pattern[str]

    def may_reach_into(self, folder: str) -> bool:
        """Whether it may match something beneath a folder."""
        fixed = re.split(r"[*?\[\\]", self.text, maxsplit=1)[0]
        inner = f"{folder}/"
        return inner.startswith(fixed) if fixed != self.text else f"{fixed}/".startswith(inner)


@dataclass(frozen=True)
class Rules:
    """The patterns in force in one folder; `above`: which match the folder itself, or one above it."""

    patterns: tuple[Pattern, ...]
    above: tuple[bool, ...]

    def matched(self, path: str) -> tuple[bool, ...]:
        """Return which patterns match a path in this folder, or a folder above it."""
        return tuple(hit for hit, _ in self._judged(path))

    def left_out(self, path: str) -> bool:
        """Whether a path in this folder is left out."""
        return any(out for _, out in self._judged(path)[-1:])

    def _judged(self, path: str) -> list[tuple[bool, bool]]:
        """Return for each pattern whether it matches, and whether the path is left out by then.

        As Docker: one that would change nothing counts as no match, also for what is beneath. So `!d` behind
        `d/a` does not bring back d/a, for d itself was never left out.
        """
        judged, out = [], False
        for pattern, known in zip(self.patterns, self.above, strict=True):
            hit = known or (pattern.keeps == out and bool(pattern.regex.fullmatch(path)))
            out = not pattern.keeps if hit else out
            judged.append((hit, out))
        return judged

    def beneath(self, folder: str) -> Rules | None:
        """Return the rules beneath a folder; None when nothing in it can be kept."""
        if self.left_out(folder) and not any(p.keeps and p.may_reach_into(folder) for p in self.patterns):
            return None
        return Rules(self.patterns, self.matched(folder))


def rules(text: str) -> Rules:
    """Read a `.dockerignore`. Raises ValueError, `line N: ...`, for a line that is no pattern."""
    found = tuple(_patterns(text.removeprefix("\ufeff")))
    return Rules(found, (False,) * len(found))


def _patterns(text: str) -> Iterator[Pattern]:
    for number, line in enumerate(text.split("\n"), 1):
        word = line.strip()
        if not word or line.startswith("#"):
            continue
        keeps = word.startswith("!")
        clean = posixpath.normpath(word[keeps:].strip() or "!").lstrip("/") or "."
        if clean == "." and not keeps:
            continue  # as Docker: the top itself can't be left out
        try:
            if clean == "!":
                raise ValueError("a `!` without a pattern")
            yield Pattern(clean, keeps, re.compile(_regex(clean), re.DOTALL))
        except (ValueError, re.error) as error:
            raise ValueError(f"line {number}: {word!r} is no pattern ({error})") from error


def _regex(pattern: str) -> str:
    """Turn a pattern into a regular expression: `**` is any number of folders, `*` and `?` stay in one."""
    out, at = "", 0
    while at < len(pattern):
        piece, at = _piece(pattern, at)
        out += piece
    return out


def _piece(pattern: str, at: int) -> tuple[str, int]:
    """Return the expression for what stands at a place in a pattern, and the place behind it."""
    rest = pattern[at:]
    if rest.startswith("**"):
        if rest in ("**", "**/"):
            return ".*", len(pattern)
        slash = rest.startswith("**/")
        ends = not at and not slash and not re.search(r"[*?\[\\]", rest[2:])  # `**.pyc`: what ends so
        return (".*" if ends else "(?:.*/)?"), at + 2 + slash
    if rest[0] in "*?":
        return ("[^/]*" if rest[0] == "*" else "[^/]"), at + 1
    if rest[0] == "[":
        end = rest.find("]", 2)
        if end < 0:
            raise ValueError("a [ is not closed")
        return _class(rest[1:end]), at + end + 1
    if rest[0] == "\\":
        if len(rest) == 1:
            raise ValueError("nothing stands behind the last \\")
        return re.escape(rest[1]), at + 2
    return re.escape(rest[0]), at + 1


def _class(inner: str) -> str:
    sign, inner = ("^", inner[1:]) if inner.startswith("^") else ("", inner)
    return f"[{sign}" + re.sub(r"([\[\]&~|])", r"\\\1", inner) + "]"
