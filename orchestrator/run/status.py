"""What is true of a run: judged from its record, its lock, the host's boot id, processes and containers."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.run.record import Record
from orchestrator.units import as_docker, spell

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

    @property
    def live(self) -> bool:
        """Whether the run has not ended."""
        return self.state in LIVE


def judge(record: Record) -> Status:
    """Say how a worker stands, from what its own host has written and sees."""
    state = record.state
    started = state.get("started") or record.placed or None
    if state.get("ended"):
        return _ended(record, started)
    if not state:
        return _silent(record, started)
    lost = _lost(record)
    if lost and record.stop:
        cause = f"{describe({**record.stop, 'kind': 'stopped'})}; {lost}"
        return Status("stopped", cause, 128 + signal.SIGTERM, inferred=True, started=started)
    if lost:
        return Status("lost", lost, inferred=True, started=started)
    return Status(state.get("state", "running"), _oddity(record), started=started)


def _ended(record: Record, started: float | None) -> Status:
    state = record.state
    code, number = state.get("exit_code"), state.get("signal")
    status = code if code is not None else 128 + int(number or 0)
    kind = state.get("cause", {}).get("kind")
    if state["state"] == "stopped":
        status = 128 + signal.SIGTERM
    elif kind == "timeout":
        status = TIMED_OUT
    cause = describe(state.get("cause", {}))
    if record.lock == "held":
        cause = f"{cause}; a child of it still runs".lstrip("; ")
    return Status(state["state"], cause, status, started=started, ended=state["ended"])


def _silent(record: Record, started: float | None) -> Status:
    if record.lock == "held" or record.ground.now - record.placed < STARTING_FOR:
        return Status("starting", started=started)
    return Status("lost", "its supervisor never started", inferred=True, started=started)


def _lost(record: Record) -> str:
    """Return why a run that was never recorded as ended can't be alive; empty when it may be."""
    state, ground = record.state, record.ground
    boot = state.get("boot_id")
    if boot and ground.boot_id and boot != ground.boot_id:
        return "host rebooted"
    if record.lock == "held":
        return ""
    if record.lock == "free":
        container = state.get("container")
        if container and ground.containers is not None and container not in ground.containers:
            return "container gone"
        return "supervisor gone"
    if record.spec.run in ground.supervisors or not _stale(record):
        return ""
    return "supervisor gone"


def _oddity(record: Record) -> str:
    """Return what is worth saying of a run that lives."""
    seen = record.spec.run in record.ground.supervisors
    if record.lock == "held" and not seen and _stale(record):
        return "its supervisor is gone, the command still runs"
    if record.lock in ("unreadable", "unknown"):
        return "judged by process" if seen else "judged by heartbeat"
    return ""


def _stale(record: Record) -> bool:
    return record.ground.now - float(record.state.get("heartbeat") or 0) > STALE


def describe(cause: Mapping[str, Any]) -> str:
    """Return a recorded cause in words; empty for a clean exit."""
    kind = cause.get("kind")
    if kind == "exit":
        return _exit(cause)
    if kind == "signal":
        after = f" after {cause['exception']}" if cause.get("exception") else ""
        return signal_words(int(cause.get("signal", 0))) + after + _neighbour(cause)
    if kind == "oom":
        return _out_of_memory(cause)
    if kind == "timeout":
        return f"timeout after {spell(float(cause.get('seconds', 0)))}"
    if kind == "not started":
        return str(cause.get("message", "not started"))
    if kind == "stopped":
        why = cause.get("why")
        return f"by {cause.get('by', '?')}" + (f": {why}" if why else "")
    return str(kind or "")


def _exit(cause: Mapping[str, Any]) -> str:
    code, said = cause.get("code"), str(cause.get("exception") or "")
    status = f"exit {code}" if code else ""
    if said and code != 1:  # 1 is what Python makes of an exception
        said = f"{said} ({status})"
    return (said or status) + _neighbour(cause)


def _neighbour(cause: Mapping[str, Any]) -> str:
    return "; the kernel killed a process of this environment for memory" if cause.get("oom_kills") else ""


def _out_of_memory(cause: Mapping[str, Any]) -> str:
    limit = cause.get("limit")
    whose = {
        "container": f"the container's {as_docker(int(limit))} ran out"
        if limit
        else "the container's ran out",
        "host": "the host's ran out",
    }.get(str(cause.get("where")))
    words = "out of memory" + (f": {whose}" if whose else "") + " (killed by the kernel)"
    return words + (", probably" if cause.get("probable") else "")


_NAMES = {
    signal.SIGKILL: "killed from outside",
    signal.SIGSEGV: "a crash in native code",
    signal.SIGILL: "an instruction that this CPU lacks",
    signal.SIGBUS: "often a full /dev/shm: see shm_size",
    signal.SIGABRT: "aborted by native code",
}


def signal_words(number: int) -> str:
    """Return a signal with its name and what it mostly means: `signal 9 (SIGKILL, killed from outside)`."""
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    meaning = f", {_NAMES[known]}" if known in _NAMES else ""
    return f"signal {number} ({known.name}{meaning})"
