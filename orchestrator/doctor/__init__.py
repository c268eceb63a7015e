"""Whether a host can do the job: ordered checks over facts, each with one fix line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from orchestrator.doctor import deployed, direct, engine, gpu, machine
from orchestrator.doctor.check import Check, Examined, Level, fail, ok
from orchestrator.doctor.together import together
from orchestrator.errors import ConfigError, OrchError

__all__ = ["Check", "Examined", "Level", "diagnose", "together", "unreached"]


_BY_ENGINE: Mapping[str, Callable[[Examined], Iterable[Check]]] = {
    "venv": direct.venv_checks,
    "host": direct.host_checks,
    "apptainer": direct.apptainer_checks,
}


def diagnose(seen: Examined) -> tuple[Check, ...]:
    """Return every check of a host that answered."""
    picked = seen.host.picked
    return (
        ok("reachable", seen.host.address),
        *machine.checks(seen),
        *([ok("engine", f"auto: {picked}")] if picked else []),
        *_BY_ENGINE.get(seen.host.settings.engine, engine.checks)(seen),
        *gpu.checks(seen),
        *deployed.checks(seen),
    )


def unreached(error: OrchError, address: str) -> tuple[Check, ...]:
    """Return the one check of a host that did not answer."""
    by_hand = "Mend it there" if isinstance(error, ConfigError) else f"Try by hand: ssh -v {address}"
    return (fail("reachable", error.message, error.hint or by_hand),)
