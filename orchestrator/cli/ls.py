"""orch ls: the files of a run."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.listing import failing_as, print_json
from orchestrator.cli.options import host_options, pass_app

if TYPE_CHECKING:
    from orchestrator.files.listing import Item
    from orchestrator.hosts.base import Machine


@click.command("ls")
@host_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@click.argument("path", default="", metavar="[PATH]")
@pass_app
def command(
    app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], as_json: bool, word: str | None, path: str
) -> int:
    """List what is in a run's work folder, or in PATH below it (an absolute PATH: on the run's host).

    \b
      orch ls nightly
      orch ls nightly checkpoints
    """
    from orchestrator.cli.runs import find_run, say_went_on

    with failing_as("ls" if as_json else None):
        found = find_run(app, word, hosts)
    if word is None and not as_json:
        app.say(f"run     {found.id}")
    say_went_on(app, found, "ls")
    roots = {w.host.name: posixpath.join(w.record.directory, "work", path) for w in found.workers}
    outcomes = app.each([w.host for w in found.workers], lambda m: _items(m, roots[m.host.name]))
    rows = [_row(o.host.name, item) for o in outcomes for item in o.value or ()]
    if as_json:
        print_json("ls", rows, ((o.host.name, o.error) for o in outcomes))
    else:
        _print(rows, [w.host.name for w in found.workers])
    return app.close(outcomes)


def _items(machine: Machine, root: str) -> list[Item]:
    from dataclasses import replace

    from orchestrator.errors import HostError
    from orchestrator.files.listing import WORDS, list_files

    listing = list_files(machine, [(root, 1)]).roots[0]
    if listing.kind in WORDS:
        raise HostError(f"{root} is {WORDS[listing.kind]}", where=machine.host.name)
    if listing.kind == "file":
        return [replace(listing.items[0], path=posixpath.basename(root))]
    return sorted((item for item in listing.items if item.path), key=lambda item: item.path)


def _row(host: str, item: Item) -> dict[str, Any]:
    """Return what is said of a file; the shape of --json. `mtime` is in seconds since the epoch."""
    from orchestrator.cli.places import shown

    size = item.size if item.kind == "file" else None
    return {"host": host, "name": shown(item.path), "kind": item.kind, "size": size, "mtime": item.mtime}


def _print(rows: list[dict[str, Any]], hosts: list[str]) -> None:
    from orchestrator.cli.places import moment
    from orchestrator.files.archive import SENT
    from orchestrator.logs.view import prefixes
    from orchestrator.units import size

    before = prefixes(hosts)
    for row in rows:
        count = "-" if row["size"] is None else size(row["size"])
        mark = {"dir": "/", "link": "@"}.get(row["kind"], "")
        when = moment(row["mtime"]) if row["mtime"] > SENT else "sent"
        click.echo(f"{before[row['host']]}{count:>8}  {when:16}  {row['name']}{mark}")
