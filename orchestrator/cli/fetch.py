"""orch fetch: bring back what a run wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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

ASKED_ABOVE = 10 * 10**9
"""Bytes from which on a person at a terminal is asked first."""


@click.command("fetch")
@host_options
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where it goes. Default: a folder here with the run's id for a name.",
)
@click.option("--overwrite", is_flag=True, help="Also replace files that are newer here.")
@click.option("--dry-run", is_flag=True, help="List what would come, with sizes, and bring nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask, however much it is.")
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@click.argument("path", default="", metavar="[PATH]")
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    to: Path | None,
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    word: str | None,
    path: str,
) -> int:
    """Bring back what a run wrote: new and changed files of its work folder, or all of PATH in it.

    What is here already is not sent again: a fetch that is cut off connects again by itself, and one that was
    stopped goes on when it is called again, in the midst of a large file too. Of a run on several hosts each
    worker's files come into a folder of its host's name.

    \b
      orch fetch nightly
      orch fetch nightly checkpoints --to results
      orch fetch nightly --dry-run
    """
    from orchestrator.cli.places import inside_work
    from orchestrator.cli.runs import find_run, say_went_on

    path = inside_work(path)
    found = find_run(app, word, hosts)
    say_went_on(app, found, "fetch")
    target = app.cwd / (to or found.id)
    several = len(found.workers) > 1 or len(found.spec.hosts) > 1
    folders = {w.host.name: target / w.record.host if several else target for w in found.workers}
    records = {w.host.name: w.record for w in found.workers}
    how = How(target, ours=to is None, overwrite=overwrite, dry_run=dry_run, yes=yes)

    def work(machine: Machine) -> int:
        name = machine.host.name
        return _fetch(app, machine, records[name], path, folders[name], how)

    # One after the other: there is one terminal and one disk here.
    outcomes = [outcome for worker in found.workers for outcome in app.each([worker.host], work)]
    status = app.close(outcomes) or max((o.value or OK for o in outcomes), default=OK)
    if absent := () if hosts else found.absent:
        app.say(
            f"orch: {', '.join(absent)}: no answer, or no record of the run there: its files did not come"
        )
        status = status or FAILED
    if any(not o.error for o in outcomes) and target.exists() and not dry_run:
        click.echo(target)
    return status


@dataclass(frozen=True)
class How:
    """What a person wants of a fetch. `ours`: they named no folder."""

    target: Path
    ours: bool
    overwrite: bool
    dry_run: bool
    yes: bool

    def mark(self) -> None:
        """Make the folder, as one that is no code: before anything is in it, since a fetch may be cut off."""
        from orchestrator.files.part import write_whole
        from orchestrator.files.receiving import writing
        from orchestrator.run.code.ignore import FETCHED

        made, hide = not self.target.exists(), self.target / ".gitignore"
        with writing(self.target):
            self.target.mkdir(parents=True, exist_ok=True)
            if made or self.ours:  # also where one that was killed has made it
                (self.target / FETCHED).touch()
            if self.ours and not hide.exists():  # results in the project are no change of its code for git
                write_whole(hide, "*\n")


def _fetch(app: App, machine: Machine, record: Record, path: str, folder: Path, how: How) -> int:
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
    chosen = plan(source.wanted, overwrite=how.overwrite)
    if how.dry_run:
        return _would(app, machine.host.name, source, chosen)
    return bring(app, machine, source, chosen, folder, yes=how.yes, before=how.mark)


def _would(app: App, host: str, source: Source, chosen: Plan) -> int:
    """List what a fetch would bring."""
    from orchestrator.cli.places import counted, shown
    from orchestrator.units import size

    for wanted in chosen.take:
        count = size(wanted.item.size) if wanted.item.kind == "file" else "-"
        click.echo(f"{count:>8}  {shown(wanted.name)}")
    for note in (*source.notes, *chosen.kept):
        app.say(f"{host}   {shown(note)}")
    app.say(f"{host}   {counted(len(chosen.take), chosen.size)} would come{_already(source, chosen)}")
    return OK


def bring(
    app: App,
    machine: Machine,
    source: Source,
    chosen: Plan,
    folder: Path,
    *,
    yes: bool = False,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Say what comes, bring it, and say what does not. Returns FAILED when anything is left out."""
    from orchestrator.cli.asking import ask
    from orchestrator.cli.places import counted, line_to, shown
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.cli.waiting import WAITING
    from orchestrator.files.bringing import fetch
    from orchestrator.files.fetching import check_room
    from orchestrator.units import size

    host = machine.host.name
    app.say(f"{host}   {counted(len(chosen.take), chosen.size)}{_already(source, chosen)}")
    for line in _largest(chosen):
        app.say(line)
    check_room(chosen.room(source), folder)
    if chosen.size > ASKED_ABOVE and app.interactive():
        with WAITING.hidden():
            ask(app, yes, f"a fetch of {size(chosen.size)}")
    if chosen.take:
        before()
    with bytes_sent(f"{host}: fetching", chosen.size, chosen.here(source)) as told:
        missing = fetch(line_to(app, machine), source, chosen.take, folder, told=told)
    left = [*source.notes, *chosen.kept, *missing]
    for note in left:
        app.say(f"{host}   {shown(note)}")
    return FAILED if left else OK


def _already(source: Source, chosen: Plan) -> str:
    from orchestrator.units import size

    begun = chosen.here(source)
    words = [f"{chosen.same} here already"] * bool(chosen.same)
    words += [f"{size(begun)} of them came before"] * bool(begun)
    return f" ({', '.join(words)})" if words else ""


def _largest(chosen: Plan) -> list[str]:
    from orchestrator.cli.places import shown
    from orchestrator.units import size

    sizes: Counter[str] = Counter()
    for wanted in chosen.take:
        top, slash, _ = wanted.name.partition("/")
        sizes[top + slash] += wanted.item.size if wanted.item.kind == "file" else 0
    if len(sizes) < 2:
        return []
    largest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:LARGEST]
    return [f"  {size(count):>8}  {shown(name)}" for name, count in largest]
