"""Ending a run: SIGTERM, a grace, SIGKILL; recorded with who asked and why."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.container.start import answers
from orchestrator.errors import HostError
from orchestrator.facts.lines import json_object
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, quote
from orchestrator.render import render
from orchestrator.run.launch import GRACE
from orchestrator.run.record import Record


@dataclass(frozen=True)
class Stopped:
    """How the stop went on one host."""

    how: str  # stopped | already (it had ended) | swept (so, but for children) | lost (it was gone)
    state: Mapping[str, Any] = field(default_factory=dict)


def stop(machine: Machine, record: Record, *, by: str, why: str = "", grace: float = GRACE) -> Stopped:
    """End a worker and wait until nothing of it is left; `grace` in seconds before SIGKILL.

    Raises HostError when something of it is still there afterwards, or may not be signalled.
    """
    order = {"by": by, "why": why, "grace": grace, "time": time.time()}
    text = render(
        "run/stop.sh.j2",
        worker=quote(record.directory),
        run=record.spec.run,
        stop=json.dumps(order),
        grace=max(0, round(grace)),
        by=by,
    )
    result = machine.ask(Script("stop", text), deadline=grace + 60)
    answer = answers(result.text)
    if answer.get("answer") not in ("stopped", "already", "swept", "lost"):
        why = answer.get("why") or result.complaint
        raise HostError(f"run {record.spec.run} could not be stopped: {why}", where=machine.host.name)
    return Stopped(answer["answer"], json_object(answer.get("state")))
