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

    Into a folder that exists it goes under its own name. What is there already is not sent again: a copy
    that is cut off connects again by itself, and one that was stopped goes on when it is called again. Of a
    run on several hosts RUN/HOST:PATH is that of one of them.

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
    from orchestrator.cli.places import counted, line_to, shown
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.container.identity import caller, identity_of
    from orchestrator.files.local import local
    from orchestrator.files.sending import Sending
    from orchestrator.files.unfinished import token
    from orchestrator.inventory.find import cache_folder

    what, host = local(source), into.machine.host
    audit = into.project or identity_of(host, app.cwd).place(host)
    key = (host.name, into.path, str(source.resolve()))
    with (
        token(cache_folder(app.environ) / "copies", *key) as known,
        bytes_sent(f"{host.name}: sending", what.size) as told,
    ):
        sending = Sending(what, into.path, known, overwrite, audit, caller(), told)
        sent = sending.over(line_to(app, into.machine))
    app.say(f"{host.name}   {counted(sent.count, sent.size)} sent to {shown(sent.into)}")
    for note in sent.notes:
        app.say(f"{host.name}   {shown(note)}")
    return FAILED if sent.notes else OK
