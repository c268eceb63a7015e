"""orch down --purge: delete all of a project on hosts, once its container is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.errors import OK, OrchError, UsageError

if TYPE_CHECKING:
    from orchestrator.container.down import Down
    from orchestrator.hosts.base import Machine
    from orchestrator.inventory import Host


def purge_hosts(app: App, hosts: Sequence[Host], downs: Mapping[str, Down], yes: bool) -> int:
    """List what is there of the project, ask, and delete it. `downs`: what was surveyed, by host."""
    from orchestrator.container.purge import purge, survey_purge
    from orchestrator.units import size

    def place(machine: Machine) -> str:
        return downs[machine.host.name].place.path

    found = app.each(hosts, lambda machine: survey_purge(machine, place(machine)))
    there = [o for o in found if o.value and o.value.parts]
    for outcome in there:
        assert outcome.value
        app.say(f"{outcome.host.name}   delete {downs[outcome.host.name].place.path}")
        for name, count in outcome.value.parts:
            app.say(f"  {name:10} {size(count):>8}")
    if not there:
        return app.close(found)
    _ask(app, yes, size(sum(o.value.size for o in there if o.value)))
    done = app.each([o.host for o in there], lambda machine: purge(machine, place(machine)))
    for result in done:
        if result.value:
            click.echo(f"{result.host.name}   purged; {result.value.audit} has a line of it")
    return app.close([*(o for o in found if o not in there), *done]) or OK


def _ask(app: App, yes: bool, total: str) -> None:
    """Ask with no as the answer that Enter gives: nobody brings it back."""
    if yes:
        return
    if not app.interactive():
        raise UsageError(
            f"a purge deletes {total} for good, and there is no terminal to ask on", hint="Add --yes."
        )
    if not click.confirm(f"Delete {total} for good?", default=False, err=True):
        raise OrchError("nothing was deleted: you said no")
