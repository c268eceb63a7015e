"""Which run is where and what it was, as this machine remembers it: a hint that saves asking every host.

It is never the truth about how a run stands. What was asked of it never changes, so that a remembered spec
is as good as the host's, also when the host is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.inventory.find import cache_folder
from orchestrator.run.ids import ID
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
    service: bool = False


def file(environ: Mapping[str, str]) -> Path:
    """Return the path of the memory: `orch/runs.jsonl` in the user's cache folder."""
    return cache_folder(environ) / "runs.jsonl"


def remember(path: Path, spec: RunSpec, diff: str = "") -> None:
    """Add a run, and how its code differed from its commit.

    A memory that can't be written is no failure: the hosts know.
    """
    seen = Seen(spec.run, spec.name, spec.person, spec.project, spec.hosts, spec.service)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_spec(_spec_file(path, spec.run), spec, diff)
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(seen)) + "\n")
        _trim(path)
    except OSError:
        return


def spec_of(path: Path, run: str) -> tuple[RunSpec, str] | None:
    """Return what was asked of a run that was launched from here, and its code's diff.

    None where that is forgotten.
    """
    if not ID.match(run):
        return None
    try:
        asked, _, diff = (
            _spec_file(path, run).read_text(encoding="utf-8", errors="surrogateescape").partition("\n")
        )
        spec = RunSpec.parse(json.loads(asked))
    except (OSError, ValueError, AttributeError):
        return None
    return (spec, diff) if spec.run == run else None


def _spec_file(path: Path, run: str) -> Path:
    return path.parent / "specs" / run


def _write_spec(file: Path, spec: RunSpec, diff: str) -> None:
    file.parent.mkdir(exist_ok=True, mode=0o700)
    part = file.with_name(f".part-{file.name}")
    part.write_text(f"{spec.text()}\n{diff}", encoding="utf-8", errors="surrogateescape")
    part.replace(file)


def _trim(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) > 2 * KEPT:
        part = path.with_suffix(".part")
        part.write_text("".join(lines[-KEPT:]), encoding="utf-8")
        part.replace(path)
        kept = {seen.run for seen in _seen(lines[-KEPT:])}
        for file in (path.parent / "specs").iterdir():
            if file.name not in kept:
                file.unlink(missing_ok=True)


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
