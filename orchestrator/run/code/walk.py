"""The walk through a project: what there is to send, and what stands in the way."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from orchestrator.errors import UsageError, reason
from orchestrator.run.code.ignore import FETCHED, ORCHIGNORE, Rules, never_sent, rules_of
from orchestrator.units import size

Kind = Literal["file", "link", "dir"]


@dataclass(frozen=True)
class Found:
    """A file, a link with its target, or an empty folder; `path` is relative to the top, with `/`."""

    path: str
    kind: Kind
    status: os.stat_result
    target: str = ""


@dataclass
class Walk:
    """What was found, in no order. `notes` are lines for the person about what can't be sent."""

    top: Path
    found: list[Found] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)


def walk(top: Path) -> Walk:
    """Walk through a project's top folder.

    Raises UsageError for the home folder, `/`, no folder at all, and links that leave it; ConfigError for
    a bad `.orchignore`.
    """
    _check_top(top)
    result = Walk(top)
    open_folders: list[tuple[str, Rules]] = [("", rules_of(top))]
    while open_folders:
        base, rules = open_folders.pop()
        open_folders += _folder(result, base, rules)
    if result.leaving:
        links = sorted(result.leaving)
        raise UsageError(
            f"links that leave the project can't be sent: {', '.join(links[:5])}"
            + (f" and {len(links) - 5} more" if len(links) > 5 else ""),
            hint=f"{leave_out(*links[:5])}  Or replace them by what they point to.",
        )
    return result


def leave_out(*paths: str) -> str:
    """Return the advice to leave paths out, with the very lines for `.orchignore`."""
    lines = ["/" + re.sub(r"([*?\[\\])", r"\\\1", path).replace("\n", "?") for path in paths]
    if len(lines) == 1:
        return f"Put this line into {ORCHIGNORE}: {lines[0]}"
    return f"Put into {ORCHIGNORE}, a line each: {'  '.join(lines)}"


def check_size(result: Walk, most: int) -> None:
    """Raise UsageError when the files hold more than `most` bytes, with the five largest paths."""
    total = sum(f.status.st_size for f in result.found if f.kind == "file")
    if total <= most:
        return
    largest = _largest(result)
    enough = [path for n, (_, path) in enumerate(largest) if total - sum(c for c, _ in largest[:n]) > most]
    raise UsageError(
        f"the code in {result.top} holds {size(total)}, more than {size(most)}",
        hint=f"{leave_out(*enough)}  Or allow it: --max-size {-(-total // 1_000_000)}M",
        details="\n".join(f"{size(count):>8}  {path}" for count, path in largest),
    )


def _check_top(top: Path) -> None:
    real = Path(os.path.realpath(top))
    if real in (Path("/"), Path(os.path.realpath(Path.home()))):
        raise UsageError(
            f"{top} is no project: everything in it would be sent", hint="Work in a folder of its own"
        )
    if not real.is_dir():
        raise UsageError(f"{top} is no folder")


def _folder(result: Walk, base: str, rules: Rules) -> list[tuple[str, Rules]]:
    """Take in one folder and return the folders in it that are to be entered."""
    folder = result.top / base
    try:
        with os.scandir(folder) as listing:
            entries = {entry.name: entry for entry in listing}
    except OSError as error:
        result.notes.append(f"not sent: {base or '.'} ({reason(error)})")
        return []
    if base and {"pyvenv.cfg", FETCHED} & entries.keys():
        return []
    rules = rules.entering(folder, base, entries)
    before, inside = len(result.found), []
    for name, entry in entries.items():
        if never_sent(name):
            continue
        if entry.is_dir(follow_symlinks=False):
            deeper = rules.beneath(f"{base}{name}/")
            inside += [(f"{base}{name}/", deeper)] if deeper else []
        elif not rules.left_out(base + name):
            _take(result, base + name, entry)
    empty = len(result.found) == before and not inside and not rules.hidden
    if base and empty and not (entries and all(map(never_sent, entries))):  # not what held only caches
        result.found.append(Found(base.rstrip("/"), "dir", os.lstat(folder)))
    return inside


def _take(result: Walk, path: str, entry: os.DirEntry[str]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            result.found.append(Found(path, "file", status))
        elif stat.S_ISLNK(status.st_mode):
            target = _inner_target(result.top, path)
            if target is None:
                result.leaving.append(path)
            else:
                result.found.append(Found(path, "link", status, target))
    except FileNotFoundError:  # gone since it was listed
        pass
    except OSError as error:
        result.notes.append(f"not sent: {path} ({reason(error)})")


def _inner_target(top: Path, path: str) -> str | None:
    """Return a link's target relative to its folder; None when it leaves the top, by itself or by others."""
    place = os.path.join(top, path)
    target = os.readlink(place)
    if os.path.isabs(target):
        target = os.path.relpath(target, os.path.dirname(place))
    written = os.path.normpath(os.path.join(os.path.dirname(path), target))
    real_top = os.path.realpath(top)
    real = os.path.realpath(place)
    if written.split("/")[0] == ".." or os.path.commonpath([real_top, real]) != real_top:
        return None
    return target


def _largest(result: Walk) -> list[tuple[int, str]]:
    """Return the five largest entries of the top, each narrowed down to the folder that holds its weight."""
    weights: dict[str, int] = {}
    for found in result.found:
        path, count = found.path, found.status.st_size if found.kind == "file" else 0
        weights[path] = count
        while "/" in path:
            path = path[: path.rindex("/")]
            weights[path + "/"] = weights.get(path + "/", 0) + count
    top = [path for path in weights if "/" not in path.rstrip("/")]
    narrowed = [_narrow(path, weights) for path in top]
    return sorted(((weights[path], path) for path in narrowed), reverse=True)[:5]


def _narrow(path: str, weights: dict[str, int]) -> str:
    """Go down while one entry holds nearly all of a folder: the advice leaves out no more than that."""
    while path.endswith("/"):
        inside = [p for p in weights if p.startswith(path) and p != path and "/" not in p[len(path) : -1]]
        heaviest = max(inside, key=lambda p: weights[p])
        if weights[heaviest] < 0.8 * weights[path]:
            break
        path = heaviest
    return path
