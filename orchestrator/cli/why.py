"""orch why: how a run ended, and what is known around it, on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App, tell
from orchestrator.cli.listing import failing_as, print_json
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.table import fit
from orchestrator.cli.why_bundle import write_bundle
from orchestrator.errors import FAILED, OK

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.run.explain.why import Changed, Worker


@click.command("why")
@host_options
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=10, show_default=True, help="Lines of the log's end."
)
@click.option(
    "--bundle",
    metavar="FILE",
    shell_complete=completing.files,
    help="Also write it all to a .tar.gz to send to somebody, with secrets masked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    lines: int,
    bundle: str | None,
    as_json: bool,
    word: str | None,
) -> int:
    """Say how a run ended and what is known around it; of a run that lives, how far it is.

    \b
      orch why
      orch why nightly -n 40
      orch why nightly --bundle why.tar.gz
    """
    from orchestrator.cli.runs import find_or_say
    from orchestrator.run.explain.why import in_order

    archive = app.cwd / Path(bundle).expanduser() if bundle else None
    if archive:
        from orchestrator.run.explain.archive import check_new

        check_new(archive)
    with failing_as("why" if as_json else None):
        found = find_or_say(app, word, hosts)
    outcomes = _looked(app, found)
    workers = in_order([o.value for o in outcomes if o.value])
    silent = [(host, error) for host, error in found.failures if host in found.spec.hosts]
    failures = [*silent, *((o.host.name, o.error) for o in outcomes)]
    if not workers and as_json:
        print_json("why", (), failures)
    if workers:
        row, screen = _told(app, found, word, workers, lines, [host for host, _ in silent])
        if as_json:
            print_json("why", [row], failures)
        else:
            click.echo("\n".join(fit(screen)))
        if archive:
            write_bundle(app, found, archive, row, screen)
    for _, unreached in silent:
        tell(unreached)
    return app.close(outcomes) or (FAILED if silent else OK)


def _told(
    app: App, found: FoundRun, word: str | None, workers: list[Worker], lines: int, silent: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return what is said of a run: as a row of JSON, and as the lines of the screen."""
    from orchestrator.cli.why_json import as_row
    from orchestrator.cli.why_text import text

    called = found.id if word and found.id.startswith(word) else found.called
    change = _changed(app, found, workers[0])
    return as_row(called, workers, change, lines), text(called, workers, change, lines, silent)


def _looked(app: App, found: FoundRun) -> list[Outcome[Worker]]:
    from orchestrator.run.explain.why import look

    records = {w.host.name: w.record for w in found.workers}
    return app.each(
        [w.host for w in found.workers], lambda machine: look(machine, records[machine.host.name])
    )


def _changed(app: App, found: FoundRun, worker: Worker) -> Changed | None:
    """Compare with the last good run, on the host of the worker that failed first."""
    from orchestrator.run.explain.why import changed

    (host,) = (w.host for w in found.workers if w.host.name == worker.host)
    (outcome,) = app.each([host], lambda machine: changed(machine, worker))
    return outcome.value
