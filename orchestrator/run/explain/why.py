"""Why a run is as it is: its workers, the first to fail in front, and what each host knows of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.facts.gpu import GPUS, Gpu, GpuReport
from orchestrator.facts.question import ask
from orchestrator.hosts.base import Machine
from orchestrator.run import first
from orchestrator.run.explain.around import AROUND, Around, query
from orchestrator.run.explain.diff import Difference, difference, side
from orchestrator.run.explain.exception import last_exception
from orchestrator.run.explain.files_of import files_of
from orchestrator.run.explain.hints import Hint, hint
from orchestrator.run.record import Record
from orchestrator.run.status import Status, judge, last_alive

DEADLINE = 60.0
"""Seconds a host has for the answer: nvidia-smi's own limit there is 20."""

INFERRED = {
    "host rebooted": "the host's boot id: another than when the run began",
    "container gone": "its lock, which nobody holds, and its container, which does not run",
    "container restarted": "its lock, which nobody holds, and its container, which began after it",
    "supervisor gone": "its lock, which nobody holds, while no end is recorded",
    "its supervisor never started": "its lock, which nobody holds, while nothing at all is recorded",
}
"""What an end that nobody recorded is worked out from, by its cause."""


@dataclass(frozen=True)
class Beside:
    """A run that had some of the same GPUs at the same time; `ended` is None while it lives."""

    run: str
    person: str
    gpus: tuple[str, ...]  # UUIDs of those that both had
    started: float
    ended: float | None


@dataclass(frozen=True)
class Worker:
    """One worker: what was recorded of it, what it looks like, and what is around it."""

    host: str  # its name in the inventory
    record: Record
    status: Status
    around: Around
    now: GpuReport | None = None  # of its host, at the time of asking; None where it was given no GPUs

    @property
    def exception(self) -> str:
        """The exception that ended it, as recorded, else as its log has it."""
        said = str((self.record.state.get("cause") or {}).get("exception") or "")
        if said or self.status.state not in ("failed", "lost"):
            return said
        return last_exception(self.around.tail.splitlines())

    @property
    def hint(self) -> Hint | None:
        """What is known of a failure like this one."""
        ended = self.status.state in ("failed", "lost")
        status = self.status.exit_status if ended else None
        kind = str((self.record.state.get("cause") or {}).get("kind"))
        found = hint(
            self.around.log,
            status=status,
            ended=ended,
            gpus=bool(self.record.gpus),
            kind=kind,
            several=len(self.record.spec.hosts) > 1,
        )
        return found and replace(found, todo=found.todo.replace("RUN", self.record.spec.run))

    @property
    def inferred_from(self) -> str:
        """What an end that nobody recorded is worked out from; empty where it was recorded."""
        if not self.status.inferred:
            return ""
        return next((why for cause, why in INFERRED.items() if cause in self.status.cause), "")

    @property
    def beside(self) -> tuple[Beside, ...]:
        """Who else was on its GPUs, by the host's records."""
        mine, on = set(self.record.gpus), _machine(self.record)
        shared = ((r, tuple(g for g in r.gpus if g in mine)) for r in self.around.beside if _machine(r) == on)
        return tuple(
            Beside(r.spec.run, r.spec.person, gpus, float(r.state["started"]), r.state.get("ended"))
            for r, gpus in shared
            if gpus
        )

    @property
    def gpus_now(self) -> tuple[Gpu, ...]:
        """Its GPUs as they are now; one that is gone is missing."""
        return tuple(g for g in (self.now.gpus if self.now else ()) if g.uuid in self.record.gpus)

    @property
    def age(self) -> float | None:
        """Seconds since its end, or since it was last seen alive; by its host's clock alone."""
        when = last_alive(self.record, self.status)
        return None if when is None else max(0.0, self.record.ground.now - when)

    @property
    def good(self) -> Record | None:
        """The last run of the same person, project and name that succeeded before it, on this host."""
        spec = self.record.spec
        same = (spec.person, spec.project, spec.name)
        found = (r for r in self.around.good if (r.spec.person, r.spec.project, r.spec.name) == same)
        return next(found, None)


def _machine(record: Record) -> str | None:
    name: str | None = record.worker.get("environment", {}).get("machine")
    return name


def look(machine: Machine, record: Record) -> Worker:
    """Ask a worker's host what it knows around it, in one exec. Raises HostError."""
    status, host = judge(record), machine.host
    started = status.started or record.placed
    ended = status.ended or (record.ground.now if status.live else _last_seen(record))
    values = {**query(record, started=started, ended=ended), "docker": host.settings.container_command}
    facts = (AROUND, GPUS) if record.gpus else (AROUND,)
    answers = ask(machine, *facts, values=values, deadline=DEADLINE)
    now = answers.of(GPUS) if record.gpus else None
    return Worker(host.name, record, status, answers.of(AROUND), now)


def _last_seen(record: Record) -> float:
    return float(record.state.get("heartbeat") or record.state.get("started") or record.placed)


def in_order(workers: Sequence[Worker]) -> list[Worker]:
    """Return workers with the first to fail in front; see run/first.py."""
    found = first.in_order([(worker.record, worker.status) for worker in workers])
    return sorted(workers, key=lambda worker: found.index(worker.record))


@dataclass(frozen=True)
class Changed:
    """What is other than in the last run of the same name that succeeded."""

    against: str
    difference: Difference


def changed(machine: Machine, worker: Worker) -> Changed | None:
    """Compare a worker's run with the last good one; None where there is none.

    Asks the host only for code that is another and not kept here: one exec. Raises HostError.
    """
    good = worker.good
    if good is None:
        return None
    before, after = files_of([(machine, good), (machine, worker.record)])
    return Changed(good.spec.run, difference(side(good, before), side(worker.record, after)))
