"""What `orch why` says, as the lines of one screen: a label, and what is known under it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.cli.diff_text import difference_lines
from orchestrator.gpus import user
from orchestrator.logs.progress import how_far
from orchestrator.logs.view import last_lines
from orchestrator.units import duration, ranges, size

if TYPE_CHECKING:
    from orchestrator.run.explain.why import Beside, Changed, Worker
    from orchestrator.run.spec import RunSpec

Rows = Iterator[tuple[str, Sequence[str]]]

LABEL = 12
"""Columns of a label with the blanks behind it."""

_EMPTY = 10  # lines at the end of a log that may be empty, and then are not shown


def text(
    called: str, workers: Sequence[Worker], change: Changed | None, lines: int, silent: Sequence[str]
) -> list[str]:
    """Return the screen. `workers` are in the order in which they failed, `silent` hosts gave no answer."""
    first, *others = workers
    told = [head(first)]
    for label, values in (*_of_worker(first, lines), *_of_others(first, others, silent), *_of_change(change)):
        for number, value in enumerate(values):
            told.append(f"  {label if number == 0 else '':<{LABEL}}{value}".rstrip())
    told.append("next:   " + "      ".join(next_commands(called, first)))
    return told


def head(worker: Worker) -> str:
    """Return `ID   failed on gpu01, GPUs 0-3, after 3 h, 1 d ago`."""
    status, record = worker.status, worker.record
    words = [f"{status.state} on {worker.host}"]
    if indices := [_index(record.worker, gpu) for gpu in record.gpus]:
        words.append(_gpus(indices))
    ago = "" if worker.age is None else duration(worker.age)
    if status.live:
        since = status.started
        words += [f"for {duration(record.ground.now - since)}"] if since else []
    elif status.took is not None:
        words += [f"after {duration(status.took)}", f"{ago} ago"]
    elif ago:
        words.append(f"last seen {ago} ago")
    return f"{record.spec.run}   {', '.join(words)}"


def next_commands(called: str, worker: Worker) -> list[str]:
    """Return the commands that a person wants next."""
    status = worker.status
    if status.live:
        return [f"orch tail {called}", f"orch stop {called}", "orch gpu-status"]
    if status.state == "succeeded":
        return [f"orch fetch {called}", f"orch rerun {called}"]
    if worker.around.continued:
        return [f"orch why {worker.around.continued}", f"orch tail {called}"]
    more = "orch ps" if status.inferred else f"orch why {called} --bundle why.tar.gz"
    return [f"orch resume {called}", f"orch rerun {called}", more]


def _of_worker(worker: Worker, lines: int) -> Rows:
    status, record, around = worker.status, worker.record, worker.around
    if status.cause:
        yield "note" if status.live else "cause", [status.cause]
    if worker.inferred_from:
        yield "inferred", [f"from {worker.inferred_from}"]
    if worker.exception and worker.exception not in status.cause:
        yield "exception", [_printable(worker.exception)]
    if worker.hint:
        yield "likely", [worker.hint.what, worker.hint.todo]
    if around.continued:
        yield "continued", [f"by {around.continued}"]
    yield "command", [shlex.join(record.spec.argv)]
    yield from _said_of(record.spec)
    if far := how_far(around.progress, around.tail, now=record.ground.now):
        yield "progress", [far]
    if shown := log_lines(worker, lines):
        yield "last lines", [f"| {line}" for line in shown]
    if at_end := [*_gpus_at_end(worker), *_memory_at_end(around.end), *_disk(_pair(around.end, "disk"))]:
        yield "at the end", at_end
    if worker.beside:
        yield "beside it", [_beside(worker, other) for other in worker.beside]
    if now := [*_gpus_now(worker), *_memory(around.memory), *_disk(around.disk)]:
        yield "now", now


def _said_of(spec: RunSpec) -> Rows:
    if spec.note:
        yield "note", [spec.note]
    if spec.tags:
        yield "tags", ["  ".join(spec.tags)]
    if spec.parent:
        yield str(spec.parent.get("kind", "")), [f"of {spec.parent.get('run')}"]


def _of_others(first: Worker, others: Sequence[Worker], silent: Sequence[str]) -> Rows:
    told = [
        f"{w.host} {w.status.state}{_later(first, w)}{': ' * bool(w.status.cause)}{w.status.cause}"
        for w in others
    ]
    told += [f"{host} does not answer" for host in silent]
    if told:
        yield "others", told


def _later(first: Worker, other: Worker) -> str:
    if first.age is None or other.age is None or other.status.ended is None:
        return ""
    return f" {duration(first.age - other.age)} later"


def _of_change(change: Changed | None) -> Rows:
    if change:
        what = difference_lines(change.difference) or ["nothing that is recorded"]
        yield "changed", [f"since {change.against}, which succeeded:", *what]


def log_lines(worker: Worker, count: int) -> list[str]:
    """Return the last lines of a worker's log in their final state, without empty ones at the end."""
    around = worker.around
    shown = last_lines(around.tail.encode(), count + _EMPTY, beginning=not around.head)
    while shown and not shown[-1].strip():
        shown.pop()
    return shown[-count:] if count else []


def _gpus_at_end(worker: Worker) -> Iterator[str]:
    end, mine = worker.around.end, set(worker.record.gpus)
    processes = [p for p in dicts(end, "gpu_processes") if p.get("uuid") in mine]
    for gpu in dicts(end, "gpus"):
        if gpu.get("uuid") not in mine:
            continue
        words = [f"GPU {_index(worker.record.worker, str(gpu['uuid']))}"]
        if gpu.get("memory_total"):
            words.append(f"{_gib(gpu.get('memory_used'))}/{_gib(gpu['memory_total'])} GB")
        words += [f"{gpu['temperature']} C"] if gpu.get("temperature") is not None else []
        words += [f"fault: {gpu['fault']}"] if gpu.get("fault") else []
        users = [
            f"{p.get('name')} {_gib(p.get('memory'))} GB" for p in processes if p.get("uuid") == gpu["uuid"]
        ]
        yield "   ".join([*words, ", ".join(users)]).rstrip()


def _gpus_now(worker: Worker) -> Iterator[str]:
    from orchestrator.gpus import row

    if worker.now and worker.now.problem:
        yield f"GPUs: {worker.now.problem}"
        return
    found = {gpu.uuid: gpu for gpu in worker.gpus_now}
    for uuid in worker.record.gpus:
        name = f"GPU {_index(worker.record.worker, uuid)}"
        gpu = found.get(uuid)
        if gpu is None:
            yield f"{name}   is not there any more"
            continue
        held = row(gpu)
        memory = [f"{user(p)} {_gib((p.memory_mb or 0) * 2**20)} GB" for p in gpu.processes if p.memory_mb]
        yield f"{name}   {held.memory}   {', '.join(memory) or held.who}"


def _memory_at_end(end: Mapping[str, Any]) -> Iterator[str]:
    yield from _memory(_pair(end, "memory", "available"))
    limit, used = end.get("memory_limit"), end.get("memory_used")
    if isinstance(limit, int) and isinstance(used, int):
        yield f"memory of its container: {size(used)} of {size(limit)} used"


def _memory(pair: tuple[int, int] | None) -> list[str]:
    return [f"memory {size(pair[1])} of {size(pair[0])} free"] if pair else []


def _disk(pair: tuple[int, int] | None) -> list[str]:
    return [f"disk {size(pair[1])} of {size(pair[0])} free"] if pair else []


def _pair(end: Mapping[str, Any], what: str, free: str = "free") -> tuple[int, int] | None:
    total, left = end.get(f"{what}_total"), end.get(f"{what}_{free}")
    return (total, left) if isinstance(total, int) and isinstance(left, int) and total else None


def _beside(worker: Worker, other: Beside) -> str:
    record, status = worker.record, worker.status
    until = status.ended or record.ground.now
    began = max(other.started, status.started or other.started)
    span = duration(max(0.0, min(other.ended or until, until) - began))
    gpus = _gpus([_index(record.worker, uuid) for uuid in other.gpus])
    return f"{other.person}: {other.run}, {gpus}, for {span}{' (lives)' if other.ended is None else ''}"


def _index(worker: Mapping[str, Any], uuid: str) -> str:
    """Return a GPU as nvidia-smi numbers it at the launch; else the beginning of its UUID."""
    numbers = dict(zip(worker.get("gpus", ()), worker.get("indices", ()), strict=False))
    return str(numbers[uuid]) if uuid in numbers else uuid[:12]


def _gpus(indices: Sequence[str]) -> str:
    numbers = [int(i) for i in indices if i.isdigit()]
    named = ranges(numbers) if len(numbers) == len(indices) else ",".join(indices)
    return f"GPU{'s' if len(indices) > 1 else ''} {named}"


def _gib(count: Any) -> str:
    return f"{count / 2**30:.1f}".removesuffix(".0") if isinstance(count, int) else "-"


def dicts(end: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list in end.json; none where it is something else."""
    found = end.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line)
