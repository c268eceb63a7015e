"""Which run is where, as this machine remembers it: a hint that saves asking every host, never the truth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.inventory.find import cache_folder
from orchestrator.run.spec import RunSpec

KEPT = 2000
"""Lines kept in the file when it is rewritten."""


@dataclass(frozen=True)
class Seen:
    """A run that was launched from here."""

    run: str
    name: str | None
    person: str
    project: str
    hosts: tuple[str, ...]


def file(environ: Mapping[str, str]) -> Path:
    """Return the path of the memory: `orch/runs.jsonl` in the user's cache folder."""
    return cache_folder(environ) / "runs.jsonl"


def remember(path: Path, spec: RunSpec) -> None:
    """Add a run. A memory that can't be written is no failure: the hosts know."""
    seen = Seen(spec.run, spec.name, spec.person, spec.project, spec.hosts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(seen)) + "\n")
        _trim(path)
    except OSError:
        return


def _trim(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) > 2 * KEPT:
        part = path.with_suffix(".part")
        part.write_text("".join(lines[-KEPT:]), encoding="utf-8")
        part.replace(path)


def recall(path: Path) -> tuple[Seen, ...]:
    """Return the remembered runs, newest first. Lines that make no sense are passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(_seen(reversed(lines)))


def _seen(lines: Iterable[str]) -> Iterable[Seen]:
    for line in lines:
        try:
            fields = json.loads(line)
            yield Seen(**{**fields, "hosts": tuple(fields["hosts"])})
        except (ValueError, TypeError, KeyError):
            continue
