"""orch stop: end a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App, tell
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import FAILED, OK, OrchError

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun
    from orchestrator.run.stop import Stopped

_TOLD = {
    "stopped": "stopped",
    "already": "had ended already",
    "swept": "had ended already",
    "lost": "was not there any more",
}


@click.command("stop")
@host_options
@click.option("--now", is_flag=True, help="SIGKILL at once, with no time to save.")
@click.option(
    "--grace", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds before SIGKILL."
)
@click.option("--why", default="", metavar="TEXT", help="A reason, kept in the record.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    now: bool,
    grace: float,
    why: str,
    runs: tuple[str, ...],
) -> int:
    """End runs: SIGTERM to all that belongs to them, a grace, then SIGKILL.

    \b
      orch stop nightly
      orch stop --now 20261130-0214
    """
    worst = OK
    for word in runs:
        try:
            code = _stop(app, word, hosts, 0.0 if now else grace, why)
        except OrchError as error:  # the others are stopped all the same
            tell(error)
            code = error.exit_code
        worst = max(worst, code)
    return worst


def _stop(app: App, word: str, hosts: tuple[str, ...], grace: float, why: str) -> int:
    from orchestrator.cli.runs import find_run
    from orchestrator.container.identity import caller
    from orchestrator.run.stop import stop

    found = find_run(app, word, hosts, alive=True)
    records = {w.host.name: w.record for w in found.workers}
    by = caller()
    outcomes = app.each(
        [w.host for w in found.workers],
        lambda machine: stop(machine, records[machine.host.name], by=by, why=why, grace=grace),
    )
    for outcome in outcomes:
        if outcome.value:
            click.echo(f"{outcome.host.name}   {found.id}   {_told(found, outcome.value, grace)}")
    silent = () if hosts else _silent(found)
    for error in silent:
        tell(error)
    return FAILED if app.close(outcomes) or silent else OK


def _told(found: FoundRun, stopped: Stopped, grace: float) -> str:
    """Return how the stop of a worker went; one that a peer's stop took with it was stopped too."""
    state, how = stopped.state, _TOLD[stopped.how]
    if stopped.how in ("already", "swept") and state.get("state"):
        with_peer = state["state"] == "stopped" and (state.get("cause") or {}).get("on") in found.spec.hosts
        how = f"stopped with {state['cause']['on']}" if with_peer else f"had ended already: {state['state']}"
    if stopped.how == "swept":
        how += "; a child of it still ran, and was ended"
    return how + (f" (killed after {grace:g} s)" if state.get("signal") == 9 and grace else "")


def _silent(found: FoundRun) -> list[OrchError]:
    """Return an error for each host of the run that could not be asked: its worker is not stopped by us."""
    within = "ten minutes" if found.spec.restarts else "a minute"  # it may wait for its host to come back
    hint = f"Where it hears the others it ends by itself within {within}; else stop it when it answers."
    return [
        type(error)(f"{error.message}, so that its worker was not stopped from here", where=host, hint=hint)
        for host, error in found.failures
        if host in found.spec.hosts
    ]
