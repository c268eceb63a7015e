"""orch deploy: plan, ask, then build, start and prove the environment of a project on hosts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from orchestrator.cli.app import App
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.container.deploy import Deploy, Ready
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome


@click.command("deploy")
@host_arguments
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and touch nothing; -v: every rendered file too."
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --dry-run: print the plan as JSON (docs/json.md)."
)
@click.option("--locked", is_flag=True, help="Exactly what image.lock says, or nothing (orch image lock).")
@click.option("--replace", is_flag=True, help="End runs that live in a container that has to change.")
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    as_json: bool,
    locked: bool,
    replace: bool,
) -> int:
    """Build, start and prove the environment of this project on hosts; no change costs nothing.

    \b
      orch deploy --hosts gpu01
      orch deploy --dry-run -v gpu01
    """
    from orchestrator.cli.asking import ask
    from orchestrator.container.survey import survey

    if as_json and not dry_run:
        raise UsageError("--json prints a plan", hint="Add --dry-run.")
    chosen = app.changed(hosts, exclude)
    outcomes = app.each(chosen, lambda m: survey(m, app.cwd, app.environ, replace=replace, locked=locked))
    if as_json:
        rows = (_row(o.value) for o in outcomes if o.value)
        print_json("deploy", rows, ((o.host.name, o.error) for o in outcomes))
        return app.close(outcomes)
    todo = [o.value for o in outcomes if o.value and not o.value.unchanged]
    _tell_plans(app, outcomes, dry_run=dry_run)
    failed = [o for o in outcomes if o.error]
    if dry_run or not todo:
        return app.close(outcomes)
    ask(app, yes, "a deploy changes things")
    done = _carry_out(app, [o.value for o in outcomes if o.value])
    ready = next((o.host.name for o in done if o.value), None)
    if ready and not app.inside:
        app.say(f"next:   orch train --hosts {ready} -- python3 train.py      orch ssh {ready}")
    unchanged = [o for o in outcomes if o.value and o.value.unchanged]
    return app.close([*failed, *unchanged, *done])


def _row(deploy: Deploy) -> dict[str, Any]:
    """Return what would be done on a host; the shape of --json."""
    plan = [] if deploy.unchanged else [line.strip() for line in deploy.lines]
    return {"host": deploy.host.name, "unchanged": deploy.unchanged is not None, "plan": plan}


def _tell_plans(app: App, outcomes: Sequence[Outcome[Deploy]], *, dry_run: bool) -> None:
    """Print what would be done, and what is there and stays."""
    from orchestrator.cli.folding import grouped, with_names

    say: Callable[[str], None] = click.echo if dry_run else app.say
    told = [(o.host.name, _lines(o.value, files=dry_run and app.verbose > 0)) for o in outcomes if o.value]
    unchanged = {o.host.name for o in outcomes if o.value and o.value.unchanged}
    for group in grouped(told, lambda pair: pair[1]):
        hosts = [host for host, _ in group]
        for line in group[0][1]:
            told_in_full = with_names(line, hosts)
            if hosts[0] in unchanged:
                click.echo(told_in_full)
            else:
                say(_kept_to_width(told_in_full, sys.stdout if dry_run else sys.stderr))


def _kept_to_width(line: str, to: TextIO) -> str:
    """Let the words of a plan's line go on under themselves where the terminal is narrow."""
    from orchestrator.cli.table import wrapped
    from orchestrator.container.telling import PLAN_INDENT

    if not line.startswith("  "):
        return line
    return line[:PLAN_INDENT] + wrapped(line[PLAN_INDENT:], PLAN_INDENT, to=to)


def _lines(deploy: Deploy, *, files: bool) -> tuple[str, ...]:
    """Return what is told of one host, with its name left open."""
    from orchestrator.cli.folding import without_name
    from orchestrator.container.telling import plan_line, unchanged_line

    host, there = deploy.host.name, deploy.unchanged
    picked = [plan_line("engine", "auto", deploy.host.picked)] if deploy.host.picked else []
    lines = [unchanged_line(host, there)] if there else [deploy.head, *picked, *deploy.lines]
    if files:
        lines += [f"\n---- {host}: {name}\n{text.rstrip()}" for name, text in deploy.rendered]
    return tuple(without_name(line, host) for line in lines)


def _carry_out(app: App, deploys: Sequence[Deploy]) -> list[Outcome[Ready]]:
    """Do all that is to do at once, each with its lines of progress, and its outcome as it comes."""
    from orchestrator.cli.ending import end_runs
    from orchestrator.cli.stages import stages
    from orchestrator.container.sharing import share_packages

    todo, holders = share_packages(deploys)
    there = {d.host.name: d for d in holders}
    app.each([d.host for d in holders], lambda m: there[m.host.name].give_packages(m))
    by_name = {d.host.name: d for d in todo}
    began = time.monotonic()

    def work(machine: Machine) -> Ready:
        deploy = by_name[machine.host.name]
        if deploy.ending:
            with shown.aside():
                end_runs(app, machine, deploy.ending, "orch deploy --replace")
        return deploy.carry_out(machine, shown.teller(machine.host.name))

    def told(outcome: Outcome[Ready]) -> None:
        shown.done(outcome.host.name)
        if outcome.value:
            with shown.aside():
                _tell_ready(app, outcome.host.name, outcome.value, time.monotonic() - began)

    with stages(app) as shown:
        return app.each([d.host for d in todo], work, told=told)


def _tell_ready(app: App, host: str, ready: Ready, seconds: float) -> None:
    from orchestrator.container.telling import cpu_only_warning, ready_line, unchanged_line

    if ready.seen is None:
        WAITING.say(unchanged_line(host, ready.environment), err=False)
        return
    WAITING.say(ready_line(host, ready.environment, ready.seen, seconds, ready.gpus), err=False)
    warning = cpu_only_warning(ready.seen, ready.gpus)
    if warning:
        app.say(f"warning: {host}: {warning}")
