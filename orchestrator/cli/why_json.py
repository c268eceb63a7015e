"""What `orch why --json` prints; docs/json.md tells each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from orchestrator.cli.diff_text import difference_json
from orchestrator.cli.why_text import dicts, log_lines, next_commands

if TYPE_CHECKING:
    from orchestrator.run.explain.why import Changed, Worker

_NUMBERS = (
    "memory_total",
    "memory_available",
    "memory_limit",
    "memory_used",
    "disk_total",
    "disk_free",
    "max_rss",
    "user_seconds",
    "system_seconds",
)
_GPU = ("uuid", "index", "name", "memory_used", "memory_total", "temperature", "fault")
_PROCESS = ("uuid", "pid", "memory", "name")


def as_row(called: str, workers: Sequence[Worker], change: Changed | None, lines: int) -> dict[str, Any]:
    """Return a run and its workers, the first to fail in front. Times in seconds, sizes in bytes."""
    first = workers[0]
    spec = first.record.spec
    return {
        "run": spec.run,
        "name": spec.name,
        "person": spec.person,
        "project": spec.project,
        "command": list(spec.argv),
        "note": spec.note,
        "tags": list(spec.tags),
        "parent": spec.parent.get("run"),
        "state": first.status.state,
        "cause": first.status.cause,
        "first": first.host,
        "continued_by": first.around.continued or None,
        "workers": [_worker(worker, lines) for worker in workers],
        "changed": change and {"against": change.against, **difference_json(change.difference)},
        "next": next_commands(called, first),
    }


def _worker(worker: Worker, lines: int) -> dict[str, Any]:
    status, record, around = worker.status, worker.record, worker.around
    return {
        "host": worker.host,
        "state": status.state,
        "cause": status.cause,
        "inferred": status.inferred,
        "inferred_from": worker.inferred_from or None,
        "exit_status": status.exit_status,
        "started": status.started,
        "ended": status.ended,
        "gpus": list(record.gpus),
        "exception": worker.exception or None,
        "hint": worker.hint and asdict(worker.hint),
        "log": log_lines(worker, lines),
        "log_size": around.size,
        "end": _end(around.end),
        "beside": [{**asdict(other), "gpus": list(other.gpus)} for other in worker.beside],
        "now": _now(worker),
    }


def _end(end: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return end.json with all its keys; None where the supervisor wrote none."""
    if not end:
        return None
    return {
        **{name: _number(end.get(name)) for name in _NUMBERS},
        "gpus": [{name: gpu.get(name) for name in _GPU} for gpu in dicts(end, "gpus")],
        "gpu_processes": [{name: p.get(name) for name in _PROCESS} for p in dicts(end, "gpu_processes")],
    }


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) else None


def _now(worker: Worker) -> dict[str, Any]:
    from orchestrator.gpus import who

    around = worker.around
    return {
        "asked": worker.record.ground.now,
        "memory_total": around.memory and around.memory[0],
        "memory_available": around.memory and around.memory[1],
        "disk_total": around.disk and around.disk[0],
        "disk_free": around.disk and around.disk[1],
        "gpus": [
            {
                "uuid": gpu.uuid,
                "index": gpu.index,
                "memory_total_mb": gpu.memory_total_mb,
                "memory_used_mb": gpu.memory_used_mb,
                "fault": gpu.fault,
                "who": who(gpu),
            }
            for gpu in worker.gpus_now
        ],
    }
