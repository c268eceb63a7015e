"""orch tensorboard: TensorBoard over runs, in their container, and a way to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.serving import idle_seconds
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun, Worker
    from orchestrator.run.service import Service

PORT = 6006
"""The port of this machine that is taken where it is free: TensorBoard's own."""


@click.command("tensorboard")
@host_options
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="The port of this machine. Default: 6006, or any.",
)
@click.option(
    "--idle", metavar="TIME", callback=idle_seconds, help="End it when nobody used it for so long: 30m, 12h."
)
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    port: int | None,
    idle: float,
    runs: tuple[str, ...],
) -> int:
    """Show runs in TensorBoard, side by side: it starts in their container, and a port here leads to it.

    It goes by all that stands below the runs' work folders. Ctrl-C ends the way there; TensorBoard goes on as
    a run (ps, tail, stop), and the same words find it again.

    \b
      orch tensorboard
      orch tensorboard nightly 20261129-0214 --idle 12h
    """
    from orchestrator.cli.forwarding import forward
    from orchestrator.cli.runs import find_or_say
    from orchestrator.cli.serving import served

    found = [find_or_say(app, word, hosts) for word in runs or (None,)]
    worker = served(app, _service(app, list({f.id: f for f in found}.values()), idle))
    return forward(app, worker, port, PORT, lambda local: f"http://127.0.0.1:{local}/")


def _service(app: App, found: Sequence[FoundRun], idle: float) -> Service:
    from orchestrator.run.again import identity_for
    from orchestrator.run.service import Service

    workers = [_writer(f) for f in found]
    first, spec = workers[0], found[0].spec
    identity = identity_for(first.host, spec, app.cwd)
    for run, worker in zip(found, workers, strict=True):
        _check(run, worker, first, spec.project, identity.person.name)
    words = tuple(w for pair in _named(found, workers) for w in ("--show", pair))
    return Service("tensorboard", first.host, identity, words, idle, from_here=False)


def _writer(found: FoundRun) -> Worker:
    """Return the worker that writes what is shown: the first, as far as it is there."""
    first = found.spec.hosts[0]
    return next((w for w in found.workers if w.record.host == first), found.workers[0])


def _check(found: FoundRun, worker: Worker, first: Worker, project: str, person: str) -> None:
    """Raise UsageError for a run that can't be seen where the first one is."""
    if found.spec.service:
        raise UsageError(f"run {found.id} is a service, and no training")
    if found.spec.person != person:
        raise UsageError(f"run {found.id} is {found.spec.person}'s, and not in a container of yours")
    if found.spec.project != project:
        what = f"{found.id} is of project {found.spec.project}, {first.record.spec.run} of {project}"
        raise UsageError(what, hint="Each project has its own TensorBoard: call it once for each.")
    if worker.host.name != first.host.name:
        what = f"{found.id} is on {worker.host.name}, {first.record.spec.run} on {first.host.name}"
        raise UsageError(what, hint="A TensorBoard sees the files of one host: call it once for each.")


def _named(found: Sequence[FoundRun], workers: Sequence[Worker]) -> list[str]:
    """Return NAME=RUN/HOST for each: by name, by id where two have the same one."""
    names = Counter(f.called for f in found)
    return sorted(
        f"{f.called if names[f.called] == 1 else f.id}={f.id}/{w.record.host}"
        for f, w in zip(found, workers, strict=True)
    )
