"""Two runs beside each other: how far both came in two columns, and below it what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.cli.diff_text import LABEL, difference_json, difference_lines
from orchestrator.units import duration

if TYPE_CHECKING:
    from orchestrator.cli.diff import Compared
    from orchestrator.run.explain.diff import Difference

LONGEST = 48
"""Columns of a cause, of which there are two in a row; the whole of it is in `orch why`."""

_KINDS = ("code", "packages", "image", "folder", "GPUs", "settings", "env names", "command")


def side_by_side(before: Compared, after: Compared) -> list[str]:
    """Return how far both runs came, in two columns, and below it what differs and what doesn't."""
    from orchestrator.cli.table import columns

    found = _difference(before, after)
    head, *rows = zip(_ABOUT, _about(before), _about(after), strict=True)
    rows += _metric_rows(before, after)
    told = columns(head, [row for row in rows if any(row[1:])])
    lines = difference_lines(found, files=True)
    different = {line[:LABEL].strip() for line in lines}
    same = [kind for kind in _KINDS if kind not in different]
    lines += [f"{'the same':<{LABEL}}{', '.join(same)}"] if same else []
    return [*told, "", *lines]


_ABOUT = ("", "state", "cause", "where", "commit", "progress")


def _about(side: Compared) -> Sequence[str]:
    from orchestrator.cli.table import cut
    from orchestrator.run.status import judge

    record, status = side.worker.record, judge(side.worker.record)
    took = f" after {duration(status.ended - status.started)}" if status.started and status.ended else ""
    git = record.spec.git
    commit = f"{str(git.get('commit', ''))[:8]}{', changed since' * bool(git.get('dirty'))}"
    cause = f"{cut(status.cause, LONGEST)}{' (inferred)' * status.inferred}"
    return (record.spec.run, f"{status.state}{took}", cause, side.worker.host.name, commit, _progress(side))


def _progress(side: Compared) -> str:
    """Return the last progress in words, where there are no metrics to put beside each other."""
    from orchestrator.logs.progress import progress

    record = side.worker.record
    return "" if metrics(record.progress) else progress("", record.tail, now=record.ground.now)


def _metric_rows(before: Compared, after: Compared) -> Iterator[tuple[str, str, str]]:
    old, new = (metrics(side.worker.record.progress) for side in (before, after))
    for name in dict.fromkeys((*old, *new)):
        first, second = (f"{side[name]:.4g}" if name in side else "-" for side in (old, new))
        yield name, first, second


def metrics(line: str) -> dict[str, float]:
    """Return the numbers of a line of progress.jsonl, but for times."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    numbers = {n: v for n, v in found.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return {name: float(value) for name, value in numbers.items() if name not in ("time", "eta_seconds")}


def _difference(before: Compared, after: Compared) -> Difference:
    from orchestrator.run.explain.diff import difference, side

    return difference(*(side(s.worker.record, s.files) for s in (before, after)))


def as_row(before: Compared, after: Compared) -> dict[str, Any]:
    """Return both runs and what differs, as plain values."""
    return {"before": _json(before), "after": _json(after), **difference_json(_difference(before, after))}


def _json(side: Compared) -> dict[str, Any]:
    from orchestrator.logs.progress import progress
    from orchestrator.run.status import judge

    record, status = side.worker.record, judge(side.worker.record)
    return {
        "run": record.spec.run,
        "name": record.spec.name,
        "host": side.worker.host.name,
        "state": status.state,
        "cause": status.cause,
        "inferred": status.inferred,
        "exit_status": status.exit_status,
        "started": status.started,
        "ended": status.ended,
        "bundle": record.spec.bundle,
        "commit": record.spec.git.get("commit"),
        "dirty": record.spec.git.get("dirty"),
        "progress": progress(record.progress, record.tail, now=record.ground.now),
        "metrics": metrics(record.progress),
    }
