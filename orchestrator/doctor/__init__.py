"""Whether a host can do the job: ordered checks over facts, each with one fix line."""

from __future__ import annotations

from orchestrator.doctor import engine, gpu, machine, python
from orchestrator.doctor.check import Check, Examined, Level, fail, ok
from orchestrator.errors import OrchError

__all__ = ["Check", "Examined", "Level", "diagnose", "unreached"]


def diagnose(seen: Examined) -> tuple[Check, ...]:
    """Return every check of a host that answered."""
    venv = seen.host.settings.engine == "venv"
    return (
        ok("reachable", seen.host.address),
        *machine.checks(seen),
        *(python.checks(seen) if venv else engine.checks(seen)),
        *gpu.checks(seen),
    )


def unreached(error: OrchError) -> tuple[Check, ...]:
    """Return the one check of a host that did not answer."""
    return (fail("reachable", error.message, error.hint or "Try by hand: ssh -v HOST."),)
