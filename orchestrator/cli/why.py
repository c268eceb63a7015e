"""orch why: how a run ended, and what is known around it, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App, tell
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import FAILED, OK, LostConnection, Unreachable

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.run.why import Changed, Worker


@click.command("why")
@host_options
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=10, show_default=True, help="Lines of the log's end."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    lines: int,
    as_json: bool,
    word: str | None,
) -> int:
    """Say how a run ended and what is known around it; of a run that lives, how far it is.

    \b
      orch why
      orch why nightly -n 40
    """
    from orchestrator.cli.runs import find_run
    from orchestrator.cli.table import fit
    from orchestrator.cli.why_json import as_row
    from orchestrator.cli.why_text import text
    from orchestrator.run.why import in_order

    try:
        found = find_run(app, word, hosts)
    except (Unreachable, LostConnection) as error:
        again = f"orch rerun {word or 'latest'} --hosts OTHER"
        hint = (
            error.hint or f"Its runs may well go on: nobody can tell until it answers. To begin anew: {again}"
        )
        raise type(error)(error.message, where=error.where, hint=hint) from error
    outcomes = _looked(app, found)
    workers = in_order([o.value for o in outcomes if o.value])
    silent = [(host, error) for host, error in found.failures if host in found.spec.hosts]
    if workers:
        called = found.id if word and found.id.startswith(word) else found.called
        change = _changed(app, found, workers[0])
        if as_json:
            failures = [*silent, *((o.host.name, o.error) for o in outcomes)]
            print_json("why", [as_row(called, workers, change, lines)], failures)
        else:
            for line in fit(text(called, workers, change, lines, [host for host, _ in silent])):
                click.echo(line)
    for _, unreached in silent:
        tell(unreached)
    return app.close(outcomes) or (FAILED if silent else OK)


def _looked(app: App, found: FoundRun) -> list[Outcome[Worker]]:
    from orchestrator.run.why import look

    records = {w.host.name: w.record for w in found.workers}
    return app.each(
        [w.host for w in found.workers], lambda machine: look(machine, records[machine.host.name])
    )


def _changed(app: App, found: FoundRun, worker: Worker) -> Changed | None:
    """Compare with the last good run, on the host of the worker that failed first."""
    from orchestrator.run.why import changed

    (host,) = (w.host for w in found.workers if w.host.name == worker.host)
    (outcome,) = app.each([host], lambda machine: changed(machine, worker))
    return outcome.value
