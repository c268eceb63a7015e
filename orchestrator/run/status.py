"""What is true of a run: judged from its record, its lock, the host's boot id, processes and containers."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import datetime

from orchestrator.run.causes import describe
from orchestrator.run.record import Record
from orchestrator.units import duration

STARTING_FOR = 30.0
"""Seconds after a launch in which a worker that has not spoken yet counts as starting."""

STALE = 60.0
"""Seconds without a heartbeat (one comes every 10) after which an unseen supervisor counts as gone."""

TIMED_OUT = 124
"""The exit status of a run whose --timeout was over, as `timeout` has it."""

LIVE = ("starting", "running")
STATES = (*LIVE, "succeeded", "failed", "stopped", "lost")


@dataclass(frozen=True)
class Status:
    """How a worker stands; `cause` says how it ended, or what is odd while it runs."""

    state: str  # starting | running | succeeded | failed | stopped | lost
    cause: str = ""
    exit_status: int | None = None  # what a shell would have seen; None while it runs or when nobody knows
    inferred: bool = False  # worked out, not recorded
    started: float | None = None  # seconds since the epoch, by the host's clock
    ended: float | None = None
    took: float | None = None  # seconds, by a clock that nobody sets

    @property
    def live(self) -> bool:
        """Whether the run has not ended."""
        return self.state in LIVE


def judge(record: Record) -> Status:
    """Say how a worker stands, from what its own host has written and sees."""
    state = record.state
    started = state.get("started") or record.placed or None
    if record.hidden:
        return _hidden(record)
    if record.gone:
        return Status("running", "its record was deleted under it", inferred=True)
    if state.get("ended"):
        return _ended(record, started)
    if not state:
        return _silent(record, started)
    lost = _lost(record)
    if lost and record.waits:
        return Status("starting", "waits for its container", inferred=True, started=started)
    if lost and record.stop:
        cause = f"{describe({**record.stop, 'kind': 'stopped'})}; {lost}"
        return Status("stopped", cause, 128 + signal.SIGTERM, inferred=True, started=started)
    if lost:
        return Status("lost", lost, inferred=True, started=started)
    return Status(state.get("state", "running"), _oddity(record), started=started)


def last_alive(record: Record, status: Status) -> float | None:
    """Return when a run ended, or was last seen alive, by its host's clock; None where nobody knows."""
    when = status.ended or record.state.get("heartbeat") or status.started
    return None if when is None else float(when)


def _ended(record: Record, started: float | None) -> Status:
    state = record.state
    code, number = state.get("exit_code"), state.get("signal")
    status = code if code is not None else 128 + int(number or 0)
    kind = state.get("cause", {}).get("kind")
    if state["state"] == "stopped":
        status = 128 + signal.SIGTERM
    elif kind == "timeout":
        status = TIMED_OUT
    elif code is None and not number:  # no command was ever started
        status = 1
    elif state["state"] == "failed":  # ended for another worker, a command may say 0 all the same
        status = status or 1
    cause = describe(state.get("cause", {}))
    if record.lock == "held":
        cause = f"{cause}; {_left(record)}".lstrip("; ")
    took = state.get("seconds", max(0.0, state["ended"] - (started or state["ended"])))
    return Status(state["state"], cause, status, started=started, ended=state["ended"], took=took)


def _left(record: Record) -> str:
    """Return what still runs of a run that has ended: `orch stop` ends it."""
    if not record.children:
        return "a child of it still runs"
    more = f" and {len(record.children) - 1} more" if len(record.children) > 1 else ""
    return f"a child of it still runs: {record.children[0].strip()}{more}"


def _silent(record: Record, started: float | None) -> Status:
    waiting = record.ground.now - record.placed < STARTING_FOR and not (
        record.never and record.lock == "free"
    )
    if record.lock == "held" or waiting:
        return Status("starting", started=started)
    said = record.tail.strip().rpartition("\n")[2]
    cause = "its supervisor never started" + (f": {said[:200]}" if said else "")
    return Status("lost", cause, inferred=True, started=started)


def _hidden(record: Record) -> Status:
    """Judge a run of which this account can see nothing but perhaps its supervisor."""
    cause = "this account may not read its record"
    if record.spec.run in record.ground.supervisors:
        return Status("running", f"judged by process: {cause}")
    return Status("lost", cause, inferred=True)


def _lost(record: Record) -> str:
    """Return why a run that was never recorded as ended can't be alive; empty when it may be."""
    state, ground = record.state, record.ground
    boot = state.get("boot_id")
    if boot and ground.boot_id and boot != ground.boot_id:
        return "host rebooted"
    if record.lock == "held":
        return ""
    if record.lock == "free":
        return _container(record) or "supervisor gone"
    if record.spec.run in ground.supervisors or not _stale(record):
        return ""
    return "supervisor gone"


def _container(record: Record) -> str:
    """Return what became of the container that a dead run was in; empty where it is no reason."""
    container, ground = record.state.get("container"), record.ground
    if not container or ground.containers is None:
        return ""
    status, started, code, oom = [*record.container.split(","), "", "", "", ""][:4]
    if container in ground.containers:
        return "container restarted" if _moment(started) > float(record.state.get("started") or 0) else ""
    if status in ("", "none"):
        return "container gone: removed" if status else "container gone"
    return f"container gone: exited ({code}{', out of memory' if oom == 'true' else ''})"


def _moment(text: str) -> float:
    """Return a time as an engine prints it, in seconds since the epoch; 0 where it makes no sense."""
    found = re.match(r"([\d-]{10})[T ]([\d:]{8})(\.\d+)?\s*(Z|[+-]\d\d:?\d\d)?", text)
    if not found:
        return 0.0
    day, time, part, zone = found.groups()
    zone = "+0000" if zone in (None, "Z") else zone.replace(":", "")
    whole = datetime.strptime(f"{day} {time} {zone}", "%Y-%m-%d %H:%M:%S %z").timestamp()
    return whole + float(part or 0)  # of nanoseconds


def _oddity(record: Record) -> str:
    """Return what is worth saying of a run that lives."""
    ground, run = record.ground, record.spec.run
    seen = run in ground.supervisors
    if record.lock == "held" and not seen and (_stale(record) or _looked_for(record)):
        return "its supervisor is gone, the command still runs"
    if run in ground.halted:
        return "its supervisor is halted"
    if record.container.startswith("paused"):
        return "its container is paused"
    if seen and _stale(record):
        return f"no heartbeat for {duration(_silence(record))}"
    if record.lock in ("unreadable", "unknown"):
        return "judged by process" if seen else "judged by heartbeat"
    return _among_others(record)


def _among_others(record: Record) -> str:
    """Return whom a worker waits for, and what it was started again for."""
    state = record.state
    hosts = ", ".join(str(host) for host in state.get("waiting") or ())
    waits = f"waits for {hosts}" if hosts else ""
    if waits and state.get("finished"):
        return f"done, {waits}"
    restarts = state.get("restarts") or []
    if not restarts:
        return waits
    last = describe(restarts[-1].get("cause") or {}) or "an end"
    again = f"restart {len(restarts)} of {max(record.spec.restarts, len(restarts))} after: {last}"
    return f"{waits}; {again}" if waits else again


def _looked_for(record: Record) -> bool:
    """Whether its supervisor would have been seen if it lived: one of the last moment may be missing."""
    return record.ground.sees and float(record.state.get("started") or 0) < record.ground.now - 2


def _stale(record: Record) -> bool:
    return _silence(record) > STALE


def _silence(record: Record) -> float:
    """Return the seconds since the last heartbeat, by a clock that nobody can set where both have one."""
    now, beat = record.ground.uptime, float(record.state.get("uptime") or 0)
    if now and beat:
        return now - beat
    return record.ground.now - float(record.state.get("heartbeat") or 0)
