"""orch diff: what differs between two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.listing import failing_as, print_json
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import OK, UsageError

if TYPE_CHECKING:
    from orchestrator.cli.runs import Worker
    from orchestrator.run.code.bundle import Bundle
    from orchestrator.run.explain.diff import Files

TAIL = 4000
"""Bytes of a log's end that are looked at for progress."""


@dataclass(frozen=True)
class Compared:
    """One of the two runs: its first worker, and the files of its bundle where they are known."""

    worker: Worker
    files: Files | None


@click.command("diff")
@host_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@click.argument("first", metavar="RUN1", shell_complete=completing.runs)
@click.argument("second", metavar="RUN2", shell_complete=completing.runs)
@pass_app
def command(
    app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], as_json: bool, first: str, second: str
) -> int:
    """Say what differs between two runs: how far they came, code, packages, image, command, variables.

    With -v also the code itself, as a unified diff.

    \b
      orch diff 20261128-0214 nightly
      orch diff -v first second
    """
    from orchestrator.cli.diff_columns import as_row, side_by_side

    with failing_as("diff" if as_json else None):
        before, after = sides = _sides(app, first, second, hosts)
    if as_json:
        print_json("diff", [as_row(before, after)])
        return OK
    for line in side_by_side(before, after):
        click.echo(line)
    if app.verbose and before.worker.record.spec.bundle != after.worker.record.spec.bundle:
        _show_code(app, *(side.worker for side in sides))
    return OK


def _sides(app: App, first: str, second: str, hosts: tuple[str, ...]) -> tuple[Compared, Compared]:
    from orchestrator.cli.runs import find_run
    from orchestrator.run.explain.files_of import files_of

    found = [find_run(app, word, hosts, tail=TAIL) for word in (first, second)]
    if found[0].id == found[1].id:
        raise UsageError(f"'{first}' and '{second}' are one run, {found[0].id}", hint="See: orch ps -a")
    workers = [_with_ends(app, run.workers[0]) for run in found]
    files = files_of([(app.machine(worker.host), worker.record) for worker in workers])
    before, after = (Compared(*pair) for pair in zip(workers, files, strict=True))
    return before, after


def _with_ends(app: App, worker: Worker) -> Worker:
    """Return a worker with the ends of its log and of progress.jsonl: they come with a run named whole."""
    from dataclasses import replace

    from orchestrator.cli.runs import read_records

    if worker.record.tail or worker.record.progress or not worker.record.size:
        return worker
    run = worker.record.spec.run
    (outcome,) = app.each([worker.host], lambda machine: read_records(machine, run=run, tail=TAIL))
    if outcome.error:
        raise outcome.error
    found = [r for r in outcome.value or () if r.directory == worker.record.directory]
    return replace(worker, record=found[0]) if found else worker


def _show_code(app: App, before: Worker, after: Worker) -> None:
    from orchestrator.run.explain.text_diff import code_diff

    click.echo()
    for line in code_diff(_bundle(app, before), _bundle(app, after)):
        click.echo(line)


def _bundle(app: App, worker: Worker) -> Bundle:
    """Return a run's code, from what is kept here, else brought from its host. Raises HostError."""
    from orchestrator.cli.waiting import WAITING
    from orchestrator.run.code.download import fetch_bundle
    from orchestrator.run.code.kept import kept

    record = worker.record
    with WAITING.on([worker.host.name]):
        return kept(record.spec.bundle) or fetch_bundle(
            app.machine(worker.host), record.place, record.spec.bundle
        )
