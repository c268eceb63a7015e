"""Who uses a GPU: from a process id up /proc to its supervisor, and through its cgroup to its container."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.facts import nvidia_smi
from orchestrator.facts.lines import Lines

FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
"""What `facts/gpu.sh.j2` asks of each compute process."""

_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
_RUN_NAME = re.compile(r"\d{8}-\d{4}-(.+)-[0-9a-f]+\Z")
_WHOLE = re.compile(r"-?\d+\Z")


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU. Person and run are those of the supervisor above it, if any."""

    pid: int  # 0: the driver would not tell
    memory_mb: int | None = None
    name: str = "?"
    user: str | None = None
    seconds: int | None = None
    container: str | None = None
    person: str | None = None
    run_id: str | None = None
    outside: bool = True  # neither of a run nor in a container of orch

    @property
    def run_name(self) -> str | None:
        """The readable part of the run's id."""
        found = _RUN_NAME.match(self.run_id) if self.run_id else None
        return found[1] if found else self.run_id


@dataclass(frozen=True)
class _Proc:
    """A process as /proc has it; `words` is its command line when it is one of a supervisor."""

    parent: int
    user: str
    seconds: int
    name: str
    cgroup: str  # the line with a container's id, if any; of podman's monitor the id alone
    words: tuple[str, ...]


def describer(lines: Lines) -> Callable[[Mapping[str, str]], GpuProcess]:
    """Return what makes a GpuProcess of a row of `--query-compute-apps`."""
    procs = _procs(lines)
    containers = {id_: (name, person) for id_, name, person, *_ in lines.all("container", 3)}

    def describe(row: Mapping[str, str]) -> GpuProcess:
        pid = int(row["pid"]) if row["pid"].isdecimal() else 0
        memory = nvidia_smi.number(row["used_memory"])
        proc = procs.get(pid)
        person, run_id = _supervisor(procs, pid)
        container, owner = _container(procs, pid, containers)
        return GpuProcess(
            pid=pid,
            memory_mb=None if memory is None else round(memory),
            name=_name(row["process_name"], proc),
            user=proc.user if proc else None,
            seconds=proc.seconds if proc else None,
            container=container,
            person=person or owner,
            run_id=run_id,
            outside=not (run_id or owner),
        )

    return describe


def _procs(lines: Lines) -> dict[int, _Proc]:
    found = {}
    for pid, parent, user, seconds, name, cgroup, *words in lines.all("proc", 6):
        if all(map(_WHOLE.match, (pid, parent, seconds))):
            command = tuple(w for w in words if w)
            found[int(pid)] = _Proc(int(parent), user, max(0, int(seconds)), name, cgroup, command)
    return found


def _container(
    procs: Mapping[int, _Proc], pid: int, containers: Mapping[str, tuple[str, str]]
) -> tuple[str | None, str | None]:
    """Return the name (else the id) of a process's container, and the person on orch's label."""
    for proc in _upwards(procs, pid):
        found = _CONTAINER_ID.search(proc.cgroup)
        if found:
            name, person = containers.get(found[0], (found[0][:12], ""))
            return name, person or None
    return None, None


def _name(said: str, proc: _Proc | None) -> str:
    """Return a program's name without its folder; of /proc where the driver gives none."""
    if nvidia_smi.is_absent(said):
        return proc.name if proc else "?"
    return re.split(r"[/\\]", said)[-1] or said


def _supervisor(procs: Mapping[int, _Proc], pid: int) -> tuple[str | None, str | None]:
    """Walk up to the nearest supervisor and return its `--person` and `--run`."""
    for proc in _upwards(procs, pid):
        options = dict(pairwise(proc.words))
        if options.get("--person") and options.get("--run"):
            return options["--person"], options["--run"]
    return None, None


def _upwards(procs: Mapping[int, _Proc], pid: int) -> Iterator[_Proc]:
    """Yield a process and its parents, the nearest first."""
    passed: set[int] = set()
    while pid in procs and pid not in passed:
        passed.add(pid)
        yield procs[pid]
        pid = procs[pid].parent
