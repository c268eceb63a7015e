"""What may stand at the cursor: verbs, options, hosts, groups, runs; from files here, without any connection.

A shell asks by `_ORCH_COMPLETE` in the environment. It gets an answer or nothing: no error, no question.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from orchestrator.inventory import Inventory

VARIABLE = "_ORCH_COMPLETE"
"""The environment variable by which a shell asks, as click names it."""

RUNS = 30
"""Runs that are offered: the newest."""

Items = list["CompletionItem"]


def answer(group: click.Group) -> None:
    """Answer the shell that asks. Never raises and never says anything else."""
    from click.shell_completion import shell_complete

    with contextlib.suppress(BaseException), open(os.devnull, "w") as nowhere:
        sys.stderr = nowhere
        shell_complete(group, {}, "orch", VARIABLE, os.environ[VARIABLE])
        sys.stdout.flush()


def hosts(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Hosts and groups, the last of several that are joined by commas."""
    before, comma, last = incomplete.rpartition(",")
    taken = set(before.split(","))
    found = ((name, what) for name, what in _names(ctx) if name not in taken)
    return _items(((before + comma + name, what) for name, what in found), before + comma + last)


def runs(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Runs that were launched from here: names, newest first, then ids."""
    return _items(_runs(), incomplete)


def entries(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Entries of the crontab."""
    from orchestrator.schedule import crontab

    return _items(((name, "entry") for name in crontab.blocks(crontab.read())), incomplete)


def states(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """States of a run."""
    from orchestrator.run.status import STATES

    return _items(((state, "state") for state in STATES), incomplete)


def hosts_or_runs(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """What `exec` and `ssh` take as their first word; behind it stands a command."""
    words = next((ctx.params.get(p.name or "") for p in ctx.command.params if p.nargs == -1), None)
    if words or ctx.params.get("hosts"):
        return files(ctx, _parameter, incomplete)
    return _items([*_names(ctx), *_runs()], incomplete)


def places(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """What `cp` takes: HOST: and RUN:, and files here."""
    found = _items(((f"{name}:", what) for name, what in [*_names(ctx), *_runs()]), incomplete)
    return found if found and incomplete else [*found, *files(ctx, _parameter, incomplete)]


def files(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Files here; the shell knows them."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _items(found: Iterable[tuple[str, str]], incomplete: str) -> Items:
    from click.shell_completion import CompletionItem

    return [CompletionItem(n, help=what) for n, what in dict(found).items() if n.startswith(incomplete)]


def _names(ctx: click.Context) -> Iterator[tuple[str, str]]:
    inventory = _inventory(ctx)
    yield from ((host.name, "host") for host in inventory.hosts)
    yield from ((group, f"group of {len(names)}") for group, names in inventory.groups.items())


def _inventory(ctx: click.Context) -> Inventory:
    from orchestrator.inventory import find_files, load

    given = getattr(ctx.find_root().obj, "files", ())
    return load(given or find_files(Path.cwd(), os.environ), environ=os.environ)


def _runs() -> Iterator[tuple[str, str]]:
    from orchestrator.run import seen

    newest = seen.recall(seen.file(os.environ))[:RUNS]
    yield from ((run.name, f"run {run.run}") for run in reversed(newest) if run.name)
    yield from ((run.run, f"run on {', '.join(run.hosts)}") for run in newest)
