"""`engine = auto`: which engine that is on a host, kept while what it deployed stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.container.direct.apptainer_image import image_values
from orchestrator.facts.engines import ENGINES, EnginesReport
from orchestrator.facts.question import ask
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import on_host

AUTO = "auto"

BEST_FIRST = ("docker", "podman", "apptainer", "venv")
"""What auto takes the first of; a venv needs nothing but a Python."""


def settle(machine: Machine, place: str) -> None:
    """Put the engine that `auto` means on a host into the machine's host; nothing for any other setting.

    `place` is the project's folder there; it may begin with `~/`. Raises HostError.
    """
    host = machine.host
    settings = host.settings
    if settings.engine != AUTO:
        return
    values = {
        "docker": settings.engine_command or ("docker",),
        "activate": settings.activate,
        "place": on_host(place).text,
        "program": image_values(host)["program"],
    }
    found = ask(machine, ENGINES, values=values).of(ENGINES)
    engine, why = pick(found)
    command = settings.engine_command if engine == "docker" else ()  # it names Docker's
    settled = replace(settings, engine=engine, engine_command=command)
    machine.host = replace(host, settings=settled, picked=f"{engine} ({why})")


def pick(found: EnginesReport, best_first: Sequence[str] = BEST_FIRST) -> tuple[str, str]:
    """Return the engine, and why it is not a better one."""
    if found.deployed in best_first:
        return str(found.deployed), "it is deployed by that"
    reasons: list[str] = []
    for engine in best_first[:-1]:
        if engine in found.usable:
            return engine, "; ".join(reasons) or "it answers"
        reasons.append(found.trouble.get(engine, f"no {engine} there"))
    return best_first[-1], "; ".join(reasons)
