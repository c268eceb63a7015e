"""What differs between two runs, in lines and as JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from orchestrator.cli.places import shown
from orchestrator.units import how_many

if TYPE_CHECKING:
    from orchestrator.run.diff import Changes, Difference

MANY = 8
"""Names that are listed in one line; of more, how many there are."""

LABEL = 11
"""Columns of a label with the blanks behind it."""


def difference_lines(found: Difference, *, many: int = MANY) -> list[str]:
    """Return a line for each kind of thing that differs; none where nothing does."""
    lines = []
    if found.code is None:
        lines.append(("code", "another bundle; what it held is not known any more"))
    elif found.code:
        lines.append(("code", _names(found.code, many, "file")))
    if found.packages:
        lines.append(("packages", _versions(found.packages, many)))
    for label, pair in (("image", found.image), ("folder", found.folder), ("GPUs", found.gpus)):
        if pair:
            before, after = ("-" if value in ("", None) else value for value in pair)
            lines.append((label, f"{before} -> {after}"))
    if found.settings:
        lines.append(("settings", ", ".join(found.settings)))
    if found.env:
        lines.append(("env names", _names(found.env, many, "name")))
    told = [f"{label:<{LABEL}}{words}" for label, words in lines]
    if found.command:
        before, after = (shlex.join(words) for words in found.command)
        told += [f"{'command':<{LABEL}}- {before}", f"{'':<{LABEL}}+ {after}"]
    return told


def _names(changes: Changes, many: int, what: str) -> str:
    groups = (
        ("changed", [name for name, _, _ in changes.changed]),
        ("added", changes.added),
        ("removed", changes.removed),
    )
    return "; ".join(f"{how} {_listed(names, many, what)}" for how, names in groups if names)


def _listed(names: Any, many: int, what: str) -> str:
    return ", ".join(map(shown, names)) if len(names) <= many else how_many(len(names), what)


def _versions(changes: Changes, many: int) -> str:
    changed = [f"{name} {before or '-'} -> {after or '-'}" for name, before, after in changes.changed]
    told = (
        [", ".join(changed) if len(changed) <= many else how_many(len(changed), "version")] if changed else []
    )
    told += [f"added {_listed(changes.added, many, 'package')}"] if changes.added else []
    told += [f"removed {_listed(changes.removed, many, 'package')}"] if changes.removed else []
    return "; ".join(told)


def difference_json(found: Difference) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "code": None if found.code is None else _changes(found.code),
        "packages": _versions_json(found.packages),
        "env": {"added": list(found.env.added), "removed": list(found.env.removed)},
        "image": _pair(found.image),
        "settings": list(found.settings),
        "command": _pair(found.command and (list(found.command[0]), list(found.command[1]))),
        "folder": _pair(found.folder),
        "gpus": _pair(found.gpus),
    }


def _changes(changes: Changes) -> dict[str, Any]:
    return {
        "added": [shown(name) for name in changes.added],
        "removed": [shown(name) for name in changes.removed],
        "changed": [shown(name) for name, _, _ in changes.changed],
    }


def _versions_json(changes: Changes) -> dict[str, Any]:
    return {
        **_changes(changes),
        "changed": [{"name": n, "before": before, "after": after} for n, before, after in changes.changed],
    }


def _pair(pair: Any) -> dict[str, Any] | None:
    return None if pair is None else {"before": pair[0], "after": pair[1]}
