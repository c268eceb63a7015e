"""Ending runs that stand in the way of a deploy or a down, with a record of who did it and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.app import App

if TYPE_CHECKING:
    from orchestrator.facts.place import LiveRun
    from orchestrator.hosts.base import Machine


def end_runs(app: App, machine: Machine, runs: Sequence[LiveRun], why: str) -> None:
    """Stop each run on this machine. One whose record is another account's is left to the engine's stop."""
    from orchestrator.cli.runs import read_records
    from orchestrator.container.identity import caller
    from orchestrator.run.stop import stop

    for run in runs:
        for record in read_records(machine, run=run.run):
            others = [host for host in record.spec.hosts if host != record.host]
            more = f", with its workers on {', '.join(others)}" if others else ""
            app.say(f"{machine.host.name}   ending {run.run}{more}")
            stop(machine, record, by=caller(), why=why)
