"""Recorded causes of an end, in words."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from orchestrator.units import as_docker, spell


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
        on = f" on {cause['on']}" if cause.get("on") else ""
        return f"by {cause.get('by', '?')}{on}" + (f": {cause['why']}" if cause.get("why") else "")
    if kind == "peer":
        return _peer(cause)
    return str(kind or "")


def _peer(cause: Mapping[str, Any]) -> str:
    """Return what became of another worker: `peer gpu02 failed: exit 3`."""
    how, theirs = cause.get("how"), describe(cause.get("cause") or {})
    said = {
        "lost": f"lost (no word for {float(cause.get('seconds') or 30):g} s)",
        "absent": "never came",
        "failed": f"failed{': ' * bool(theirs)}{theirs}",
    }.get(str(how), str(how))
    own = describe(cause.get("own") or {})
    return f"peer {cause.get('host', '?')} {said}" + (f"; its own command: {own}" if own else "")


def _exit(cause: Mapping[str, Any]) -> str:
    code, said = cause.get("code"), str(cause.get("exception") or "")
    status = f"exit {code}" if code else ""
    if said and code != 1:  # 1 is what Python makes of an exception
        said = f"{said} ({status})"
    return (said or status) + _neighbour(cause)


def _neighbour(cause: Mapping[str, Any]) -> str:
    if not cause.get("oom_kills"):
        return ""
    whose = ", perhaps of another run" if cause.get("probable") else ""
    return f"; the kernel killed a process of this environment for memory{whose}"


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
