"""orch fetch: bring back what a run wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import FAILED, OK

if TYPE_CHECKING:
    from orchestrator.files.fetching import Plan, Source
    from orchestrator.hosts.base import Machine
    from orchestrator.run.record import Record

LARGEST = 5
"""Entries named before the transfer, largest first."""


@click.command("fetch")
@host_options
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where it goes. Default: a folder here with the run's id for a name.",
)
@click.option("--overwrite", is_flag=True, help="Also replace files that are newer here.")
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@click.argument("path", default="", metavar="[PATH]")
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    to: Path | None,
    overwrite: bool,
    word: str | None,
    path: str,
) -> int:
    """Bring back what a run wrote: new and changed files of its work folder, or all of PATH in it.

    What is here already is not sent again, so that a fetch that was cut off goes on when it is called again.

    \b
      orch fetch nightly
      orch fetch nightly checkpoints --to results
    """
    from orchestrator.cli.places import inside_work
    from orchestrator.cli.runs import find_run
    from orchestrator.run.ignore import FETCHED

    path = inside_work(path)
    found = find_run(app, word, hosts)
    target = app.cwd / (to or found.id)
    made = not target.exists()
    several = len(found.workers) > 1
    folders = {w.host.name: target / w.record.host if several else target for w in found.workers}
    records = {w.host.name: w.record for w in found.workers}

    def work(machine: Machine) -> int:
        name = machine.host.name
        return _fetch(app, machine, records[name], path, folders[name], overwrite)

    # One after the other: there is one terminal and one disk here.
    outcomes = [outcome for worker in found.workers for outcome in app.each([worker.host], work)]
    status = app.close(outcomes) or max((o.value or OK for o in outcomes), default=OK)
    if any(not o.error for o in outcomes) and target.exists():
        click.echo(target)
        if to is None:
            _hide_from_git(target)
        if made:
            (target / FETCHED).touch()
    return status


def _hide_from_git(folder: Path) -> None:
    """Results that lie in the project are no change of its code: git does not see them."""
    file = folder / ".gitignore"
    if not file.exists():
        file.write_text("*\n", encoding="ascii")


def _fetch(app: App, machine: Machine, record: Record, path: str, folder: Path, overwrite: bool) -> int:
    """Fetch from one worker; FAILED when something stays as it is here or did not come."""
    from orchestrator.files.fetching import named, plan, written

    directory = record.directory
    if path:
        source = named(machine, f"{directory}/work/{path}", folder / path)
    else:
        bundle = f"{record.place}/bundles/{record.spec.bundle}"
        source = written(machine, directory, bundle, folder)
        if not source.wanted:
            app.say(f"{machine.host.name}   the run wrote no files (its log: orch tail {record.spec.run})")
            return OK
    return bring(app, machine, source, plan(source.wanted, overwrite=overwrite), folder)


def bring(app: App, machine: Machine, source: Source, chosen: Plan, folder: Path) -> int:
    """Say what comes, bring it, and say what does not. Returns FAILED when anything is left out."""
    from orchestrator.cli.places import counted, shown
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.files.fetching import check_room, fetch

    host = machine.host.name
    same = f" ({chosen.same} here already)" if chosen.same else ""
    app.say(f"{host}   {counted(len(chosen.take), chosen.size)}{same}")
    for line in _largest(chosen):
        app.say(line)
    check_room(chosen.size, folder)
    with bytes_sent(f"{host}: fetching", chosen.size) as told:
        missing = fetch(machine, source, chosen.take, folder, told=told)
    left = [*source.notes, *chosen.kept, *missing]
    for note in left:
        app.say(f"{host}   {shown(note)}")
    return FAILED if left else OK


def _largest(chosen: Plan) -> list[str]:
    from orchestrator.cli.places import shown
    from orchestrator.units import size

    sizes: Counter[str] = Counter()
    for wanted in chosen.take:
        top, slash, _ = wanted.name.partition("/")
        sizes[top + slash] += wanted.item.size if wanted.item.kind == "file" else 0
    if len(sizes) < 2:
        return []
    return [f"  {size(count):>8}  {shown(name)}" for name, count in sizes.most_common(LARGEST)]
