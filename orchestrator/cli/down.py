"""orch down: stop and remove the project's container; runs and data stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.errors import OK, UsageError

if TYPE_CHECKING:
    from orchestrator.container.down import Down
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome


@click.command("down")
@host_arguments
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option("--replace", is_flag=True, help="End runs that live in it.")
@click.option("--purge", is_flag=True, help="Then delete the project's runs, code, home and workspace there.")
@pass_app
def command(
    app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], yes: bool, replace: bool, purge: bool
) -> int:
    """Stop and remove the container of this project on hosts; what runs wrote, and your data, stay.

    \b
      orch down --hosts gpu01
      orch down --purge gpu01
    """
    if purge and replace:
        raise UsageError("--purge ends no run", hint="First: orch down --replace")
    from orchestrator.cli.asking import ask
    from orchestrator.cli.purging import purge_hosts
    from orchestrator.container.down import survey_down
    from orchestrator.container.identity import identity_of

    chosen = app.changed(hosts, exclude)
    outcomes = app.each(chosen, lambda m: survey_down(m, identity_of(m.host, app.cwd), replace=replace))
    _tell_plan(app, outcomes, purge)
    downs = {o.host.name: o.value for o in outcomes if o.value}
    todo = {name: down for name, down in downs.items() if not down.nothing}
    done: list[Outcome[None]] = []
    if todo:
        ask(app, yes, "a down removes containers")
        done = _take_down(app, todo)
    status = app.close([*(o for o in outcomes if o.host.name not in todo), *done])
    try:
        return status or (purge_hosts(app, chosen, downs, yes) if purge else OK)
    finally:  # also where a purge is refused, or not wanted after all
        _tell_next(app, [r.host.name for r in done if not r.error and todo[r.host.name].containers])


def _tell_plan(app: App, outcomes: Sequence[Outcome[Down]], purge: bool) -> None:
    for outcome in outcomes:
        if outcome.value and outcome.value.nothing and not purge:
            click.echo(f"{outcome.host.name}   nothing is deployed here")
        elif outcome.value and not outcome.value.nothing:
            app.say(outcome.host.name)
            for line in outcome.value.lines:
                app.say(line)


def _take_down(app: App, todo: Mapping[str, Down]) -> list[Outcome[None]]:
    """End the runs and remove the containers; by the hosts' names."""
    from orchestrator.cli.ending import end_runs
    from orchestrator.container.down import take_down
    from orchestrator.container.identity import identity_of

    def work(machine: Machine) -> None:
        down = todo[machine.host.name]
        end_runs(app, machine, down.live, "orch down --replace")
        take_down(machine, identity_of(machine.host, app.cwd), down)

    done = app.each([d.host for d in todo.values()], work)
    for result in done:
        if not result.error:
            click.echo(f"{result.host.name}   down; runs and data are in {todo[result.host.name].place.path}")
    return done


def _tell_next(app: App, emptied: Sequence[str]) -> None:
    if emptied:
        names = ",".join(emptied)
        app.say(f"next:   orch image prune {names}      (the image stays on its disk until then)")
