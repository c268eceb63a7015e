"""What differs between two runs, in lines and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrator.cli.places import shown
from orchestrator.units import how_many

if TYPE_CHECKING:
    from orchestrator.run.explain.diff import Changes, Difference

MANY = 8
"""Names that are listed in one line; of more, how many there are."""

LABEL = 11
"""Columns of a label with the blanks behind it."""


def difference_lines(found: Difference, *, files: bool = False) -> list[str]:
    """Return a line for each kind of thing that differs; none where nothing does. `files`: one for each."""
    lines = [*_code(found, files)]
    lines += [("packages", _versions(found.packages))] if found.packages else []
    for label, pair in (("image", found.image), ("folder", found.folder), ("GPUs", found.gpus)):
        if pair:
            before, after = ("-" if value in ("", None) else value for value in pair)
            lines.append((label, f"{before} -> {after}"))
    lines += [("settings", ", ".join(found.settings))] if found.settings else []
    lines += [("env names", _names(found.env, "name"))] if found.env else []
    if found.command:
        old, new = (shlex.join(words) for words in found.command)
        lines += [("command", f"- {old}"), ("", f"+ {new}")]
    return [f"{label:<{LABEL}}{words}" for label, words in lines]


def _code(found: Difference, files: bool) -> Iterator[tuple[str, str]]:
    if found.code is None:
        yield "code", "another bundle; what it held is not known any more"
    elif found.code and not files:
        yield "code", _names(found.code, "file")
    elif found.code:
        label = "code"
        for how, names in _groups(found.code):
            for name in names:
                yield label, f"{how:<9}{shown(name)}"
                label = ""


def _groups(changes: Changes) -> list[tuple[str, tuple[str, ...]]]:
    changed = tuple(name for name, _, _ in changes.changed)
    groups = (("changed", changed), ("added", changes.added), ("removed", changes.removed))
    return [(how, names) for how, names in groups if names]


def _names(changes: Changes, what: str) -> str:
    return "; ".join(f"{how} {_listed(names, what)}" for how, names in _groups(changes))


def _listed(names: tuple[str, ...], what: str) -> str:
    return ", ".join(map(shown, names)) if len(names) <= MANY else how_many(len(names), what)


def _versions(changes: Changes) -> str:
    changed = [f"{name} {before or '-'} -> {after or '-'}" for name, before, after in changes.changed]
    told = [", ".join(changed) if len(changed) <= MANY else how_many(len(changed), "version")]
    told = told if changed else []
    told += [f"added {_listed(changes.added, 'package')}"] if changes.added else []
    told += [f"removed {_listed(changes.removed, 'package')}"] if changes.removed else []
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
