"""orch cp: copy files to and from a host or a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import inventory_options, pass_app
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import FAILED, OK, UsageError

if TYPE_CHECKING:
    from orchestrator.cli.places import Place


@click.command("cp")
@inventory_options
@click.option("--overwrite", is_flag=True, help="Also replace files that are newer at the other end.")
@click.argument("source", metavar="SRC", shell_complete=completing.places)
@click.argument("target", metavar="DST", shell_complete=completing.places)
@pass_app
def command(app: App, overwrite: bool, source: str, target: str) -> int:
    """Copy a file or a folder either way: HOST:PATH and RUN:PATH are there, everything else is here.

    Into a folder that exists it goes under its own name. What is there already is not sent again.

    \b
      orch cp data gpu01:/data/datasets/digits
      orch cp nightly:checkpoints/best.h5 .
    """
    from orchestrator.cli.places import find_place

    there, into = find_place(app, source), find_place(app, target)
    if there and not into:
        return _down(app, there, app.cwd / target, target.endswith("/"), overwrite)
    if into and not there:
        return _up(app, app.cwd / source, into, overwrite)
    if there:
        raise UsageError("one of the two must be here", hint="Copy it to here first, then on.")
    raise UsageError(
        "neither of the two is on a host", hint=f"As in: orch cp {source} gpu01:{target} (or RUN:PATH)"
    )


def _down(app: App, there: Place, to: Path, folder: bool, overwrite: bool) -> int:
    import posixpath

    from orchestrator.cli.fetch import bring
    from orchestrator.files.fetching import named, plan

    if to.is_dir() or folder:
        to /= posixpath.basename(posixpath.normpath(there.path).rstrip("/")) or there.machine.host.name
    if not to.parent.is_dir() and not folder:
        raise UsageError(f"there is no folder {to.parent}")
    with WAITING.on([there.machine.host.name]):
        source = named(there.machine, there.path, to)
    return bring(app, there.machine, source, plan(source.wanted, overwrite=overwrite), to.parent)


def _up(app: App, source: Path, into: Place, overwrite: bool) -> int:
    from orchestrator.cli.places import counted, shown
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.files.sending import local, send

    what, host = local(source), into.machine.host.name
    with bytes_sent(f"{host}: sending", what.size) as told:
        sent = send(into.machine, what, into.path, overwrite=overwrite, told=told)
    app.say(f"{host}   {counted(sent.count, sent.size)} sent to {shown(sent.into)}")
    for note in sent.notes:
        app.say(f"{host}   {shown(note)}")
    return FAILED if sent.notes else OK
