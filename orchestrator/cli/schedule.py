"""orch schedule: runs at set times, by the user's own crontab."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import pass_app
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.schedule.entry import Entry
    from orchestrator.schedule.place import Last

_KEPT = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
"""Besides ORCH_<KEY>, what of the environment an entry takes along: where orch's own files are."""


class _WithCommand(click.Command):
    """A verb whose own options stand before `--`; what stands behind it is kept whole in `ctx.meta`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Part the words at the first `--`."""
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta["orch.command"] = tuple(args[cut:])
        return super().parse_args(ctx, args[:cut])


@click.group("schedule")
def command() -> None:
    """Run training commands at set times, by cron; one entry never runs twice at once.

    \b
      orch schedule add nightly --cron "30 2 * * *" --hosts gpu01 -- python3 train.py
      orch schedule list
    """


@command.command("add", cls=_WithCommand, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option("--cron", required=True, metavar="WHEN", help='As in crontab: "30 2 * * *", or @daily.')
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF TRAIN]... -- CMD...")
@pass_app
def add(app: App, name: str, cron: str, words: tuple[str, ...]) -> None:
    """Add an entry: `orch train --wait` with these options, in this folder.

    \b
      orch schedule add nightly --cron "30 2 * * *" --hosts gpu01 --gpus 2 -- python3 train.py
    """
    from orchestrator.run.ids import check_name
    from orchestrator.schedule import crontab
    from orchestrator.schedule.entry import Entry
    from orchestrator.schedule.expression import check

    when = check(cron)
    environ = _environment(app, given=any(w.startswith("--inventory") for w in words))
    command = click.get_current_context().meta["orch.command"]
    options = (*_options(app, check_name(name), words, command), *command)
    entry = Entry(name, when, str(app.cwd), options, environ)
    line = entry.line()
    table = crontab.read()
    if name in crontab.blocks(table):
        raise UsageError(f"'{name}' is in the crontab already", hint=f"First: orch schedule remove {name}")
    crontab.write(crontab.with_block(table, name, line))
    click.echo(f"added   {name}   {when}   {_command(entry)}")
    app.say(f"next:   orch schedule run {name}      orch schedule list      orch schedule remove {name}")


def _options(app: App, name: str, words: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """Let `train` parse its options now, and say the host and the run's name where they were not said."""
    from orchestrator.cli.train import candidates
    from orchestrator.cli.train import command as train

    ctx = click.get_current_context()
    said = train.make_context("train", [*words, *command], parent=ctx).params
    for flag in ("detach", "wait", "dry_run"):
        if said.get(flag):
            raise UsageError(f"--{flag.replace('_', '-')} makes no sense in a schedule")
    bare = [pair for pair in said.get("env", ()) if "=" not in pair]
    if bare:
        raise UsageError(
            f"--env {bare[0]}: cron has not your environment", hint=f"Write --env {bare[0]}=VALUE"
        )
    hosts, _ = candidates(app, said["hosts"], said["exclude"], said["nodes"])
    for secret in dict.fromkeys(s for host in hosts for s in host.settings.secret):
        app.say(f"warning: {secret} comes from your environment, which cron has not: use env_file")
    more = () if said["hosts"] else ("--hosts", ",".join(host.name for host in hosts))
    return (*(() if said.get("name") else ("--name", name)), *more, *words)


def _environment(app: App, *, given: bool) -> dict[str, str]:
    """Return what of today's environment an entry takes along; the inventory files by absolute paths."""
    from orchestrator.inventory import find_files
    from orchestrator.inventory.settings import SETTINGS

    if app.environ.get("ORCH_ENV"):
        raise UsageError("ORCH_ENV may hold secrets, and a crontab's line can be seen", hint="Use env_file")
    keys = [*_KEPT, *(f"ORCH_{key.upper()}" for key in SETTINGS)]
    found = {key: app.environ[key] for key in keys if app.environ.get(key)}
    files = [] if given else find_files(app.cwd, app.environ)
    return {**found, **({"ORCH_INVENTORY": os.pathsep.join(map(str, files))} if files else {})}


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@pass_app
def list_(app: App, as_json: bool) -> None:
    """List the entries with how the last firing of each went.

    \b
      orch schedule list
    """
    from orchestrator.cli.table import columns
    from orchestrator.schedule import crontab
    from orchestrator.schedule.entry import parse
    from orchestrator.schedule.place import Place

    found = [
        (n, line, parse(n, line), Place(app.environ, n)) for n, line in crontab.blocks(crontab.read()).items()
    ]
    if as_json:
        print_json("schedule", (_json(n, line, entry, place.last()) for n, line, entry, place in found))
        return
    if not found:
        app.say("no entries (orch schedule add --help)")
        return
    rows = [
        (n, entry.cron, _last(place.last()), entry.folder, _command(entry))
        if entry
        else (n, "-", "-", "-", line)
        for n, line, entry, place in found
    ]
    for row in columns(("NAME", "WHEN", "LAST", "FOLDER", "TRAIN"), rows):
        click.echo(row)


def _json(name: str, line: str, entry: Entry | None, last: Last | None) -> dict[str, object]:
    """Return the shape of --json; times are seconds since the epoch, null where a person changed the line."""
    return {
        "name": name,
        "cron": entry.cron if entry else None,
        "folder": entry.folder if entry else None,
        "train": list(entry.words) if entry else None,
        "line": line,
        "last": {"started": last.started, "ended": last.ended, "status": last.status} if last else None,
    }


def _command(entry: Entry) -> str:
    import shlex

    return shlex.join(entry.words)


def _last(last: Last | None) -> str:
    from orchestrator.units import duration

    if last is None:
        return "-"
    how = "ok" if last.status == 0 else f"status {last.status}"
    return f"{how}, {duration(time.time() - last.ended)} ago"


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completing.entries)
@pass_app
def remove(app: App, names: tuple[str, ...]) -> None:
    """Take entries out of the crontab; a run that was started goes on.

    \b
      orch schedule remove nightly
    """
    from orchestrator.schedule import crontab
    from orchestrator.schedule.place import Place

    table = crontab.read()
    there = crontab.blocks(table)
    for name in names:
        _known(name, there)
        table = crontab.without_block(table, name)
    crontab.write(table)
    for name in names:
        Place(app.environ, name).forget()
        click.echo(f"removed {name}")


@command.command("run", cls=_WithCommand, context_settings={"ignore_unknown_options": True})
@click.argument("name", shell_complete=completing.entries)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="")
@pass_app
def run(app: App, name: str, words: tuple[str, ...]) -> int:
    """Do now what cron does at the set times. (The crontab's line calls this with all the words.)

    \b
      orch schedule run nightly
    """
    from orchestrator.schedule.firing import fire
    from orchestrator.schedule.place import Place

    words = (*words, *click.get_current_context().meta["orch.command"])
    if not words:
        return _as_cron(name)
    place = Place(app.environ, name)
    watched = sys.stdout.isatty()
    argv = [sys.executable, "-m", "orchestrator", "train", "--wait", *words]
    fired = fire(place, name, argv, _through if watched else _nowhere)
    if fired.status and not watched:
        app.say(
            f"orch: {name}: status {fired.status} after {fired.took}: {fired.last_words} (see {place.log})"
        )
    return fired.status


def _through(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _nowhere(_data: bytes) -> None:
    """Cron sends by mail what is printed."""


def _as_cron(name: str) -> int:
    """Run the line of an entry as cron does: by /bin/sh, from the home folder."""
    import subprocess

    from orchestrator.schedule import crontab
    from orchestrator.schedule.entry import parse

    there = crontab.blocks(crontab.read())
    _known(name, there)
    entry = parse(name, there[name])
    if entry is None:
        raise UsageError(f"the line of '{name}' was changed by hand", hint="Run it by hand: crontab -l")
    line = entry.line()[len(entry.cron) :].strip().replace("\\%", "%")
    return subprocess.run(["/bin/sh", "-c", line], check=False).returncode


def _known(name: str, there: dict[str, str]) -> None:
    from orchestrator.inventory.nearest import nearest

    if name not in there:
        near = nearest(name, there)
        raise UsageError(f"no entry '{name}' in the crontab", hint=f"Did you mean {near}?" if near else None)
