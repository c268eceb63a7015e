"""orch tail: the log of a run, live, until the run ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import FAILED, INTERRUPTED, OK, LostConnection, UsageError

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun, Worker
    from orchestrator.logs.saved import Saved
    from orchestrator.logs.session import Start
    from orchestrator.run.status import Status

LAST = 10
"""Lines of the log's end that are shown of a run that is over."""

_TRIES = 3
"""Times that the record of a run is asked for at its end: the line may be a bad one."""


def _seconds(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    from orchestrator.units import seconds_of

    try:
        return None if value is None else ceil(seconds_of(value))
    except ValueError as error:
        raise UsageError(f"--since {value}: {error}") from None


@click.command("tail")
@host_options
@click.option("-n", "--lines", type=click.IntRange(0), help="Begin so many lines before the end.")
@click.option(
    "--since", metavar="TIME", callback=_seconds, help="Begin with what was written since then: 10m, 2h."
)
@click.option(
    "-f", "--follow", "_follow", is_flag=True, hidden=True, expose_value=False
)  # every hand types it
@click.option("--no-follow", is_flag=True, help="Show what is there and end.")
@click.option("--progress", is_flag=True, help="How far each worker is, in a line that changes, not the log.")
@click.option("--raw", is_flag=True, help="The file's bytes as they are (one worker).")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write DIR/HOST.log, byte for byte, instead; called again it goes on where it stopped.",
)
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    lines: int | None,
    since: int | None,
    no_follow: bool,
    progress: bool,
    raw: bool,
    output: Path | None,
    word: str | None,
) -> int:
    """Show the log of a run as it grows, and end with the run's exit status. Ctrl-C ends only the watching.

    --since goes by what the supervisor notes every ten seconds: it may show up to ten seconds more.

    \b
      orch tail
      orch tail nightly -n 100
      orch tail nightly --since 10m
      orch tail nightly --progress
      orch tail nightly --output logs
    """
    from orchestrator.cli.runs import find_or_say, only_worker
    from orchestrator.logs.session import Start

    if lines is not None and since is not None:
        raise UsageError("-n and --since exclude each other")
    if output and (raw or lines is not None or since is not None):
        raise UsageError("--output takes the whole log as it is: no -n, --since or --raw with it")
    if progress and (output or raw or lines is not None or since is not None):
        raise UsageError("--progress shows no log: no -n, --since, --raw or --output with it")
    found = find_or_say(app, word, hosts)
    if raw:
        only_worker(found)
    absent = () if hosts else found.absent
    for host in absent:
        app.say(f"orch: {host}: no answer, or no record of the run there: its log is missing here")
    if progress:
        code = watch_run(app, found, live=not no_follow)
    elif output:
        code = save_run(app, found, app.cwd / output, live=not no_follow)
    else:
        start = None if lines is None and since is None else Start(lines, since)
        code = follow_run(app, found, start=start, live=not no_follow, raw=raw)
    return code or (FAILED if absent else OK)


def follow_run(
    app: App, found: FoundRun, *, start: Start | None = None, live: bool = True, raw: bool = False
) -> int:
    """Show all workers' logs until the run ends; return the run's exit status, 130 after Ctrl-C."""
    from orchestrator.cli.flow import Flow
    from orchestrator.cli.screen import Screen

    screen = Screen([w.record.host for w in found.workers], raw=raw)
    flow = Flow(app, found.workers, live=live, start=start)
    try:
        flow.give(screen.show)
        screen.end()
    except KeyboardInterrupt:
        screen.end(left=True)
        return _left(app, found, f"orch tail {found.called}")
    return (report_end(app, _again(app, found)) if live else OK) or flow.exit_code


def watch_run(app: App, found: FoundRun, *, live: bool) -> int:
    """Show how far all workers are until the run ends; return as `follow_run` does."""
    from orchestrator.cli.tail_progress import watch

    try:
        watch(app, found, live=live)
    except KeyboardInterrupt:
        return _left(app, found, f"orch tail {found.called} --progress")
    return report_end(app, _again(app, found)) if live else OK


def save_run(app: App, found: FoundRun, folder: Path, *, live: bool) -> int:
    """Write all workers' logs into a folder until the run ends; return as `follow_run` does."""
    from orchestrator.cli.flow import Flow
    from orchestrator.logs.saved import Saved, held

    with ExitStack() as stack:
        stack.enter_context(held(folder))
        files = {w.record.host: Saved(folder, w.record.host, found.id) for w in found.workers}
        for file in files.values():
            stack.enter_context(closing(file))
        flow = Flow(app, found.workers, live=live, positions={h: f.position for h, f in files.items()})
        try:
            flow.give(lambda host, piece: files[host].write(piece))
        except KeyboardInterrupt:
            _tell_files(app, files)
            return _left(app, found, f"orch tail {found.called} --output {folder}")
        _tell_files(app, files)
    return (report_end(app, _again(app, found)) if live else OK) or flow.exit_code


def _tell_files(app: App, files: dict[str, Saved]) -> None:
    from orchestrator.units import size

    for host, file in files.items():
        app.say(f"{host}   {size(file.position.offset)} in {file.path}")


def _left(app: App, found: FoundRun, again: str) -> int:
    app.say(f"\nthe run goes on:   {again}      orch stop {found.called}")
    return INTERRUPTED


def _again(app: App, found: FoundRun) -> FoundRun:
    """Read the run's records once more: it has ended since."""
    from orchestrator.cli.runs import find_run

    hosts = [w.host.name for w in found.workers]
    for _ in range(_TRIES - 1):
        try:
            return find_run(app, found.id, hosts)
        except LostConnection:  # cut while the log came over later connections, or just now
            pass
    return find_run(app, found.id, hosts)


def report_end(app: App, found: FoundRun) -> int:
    """Say how the run ended, each of its workers where there are several, and return its exit status.

    It is that of the first worker to end badly, else of the first whose status isn't 0.
    """
    from orchestrator.logs.view import last_lines
    from orchestrator.run.first import first_to_die
    from orchestrator.run.status import judge

    statuses = [judge(w.record) for w in found.workers]
    for worker, status in zip(found.workers, statuses, strict=True):
        for line in last_lines(worker.record.tail.encode(), LAST):
            app.say(f"  | {_prefix(found, worker)}{line}")
        if len(found.workers) > 1 and len({(s.state, s.cause) for s in statuses}) > 1:
            app.say(f"{worker.host.name}   {_end(status)}")
    first = first_to_die([w.record for w in found.workers])
    chosen = next((w for w in found.workers if w.record is first), None) or _first_that_counts(
        found, statuses
    )
    app.say(_end_line(found, chosen, judge(chosen.record)))
    if any(s.state == "lost" for s in statuses):
        run = found.called
        app.say(f"next:   orch why {run}      orch resume {run}      orch rerun {run}")
    code = judge(chosen.record).exit_status
    return FAILED if code is None else code


def _first_that_counts(found: FoundRun, statuses: Sequence[Status]) -> Worker:
    """Return the first worker whose status is not 0, else the chief."""
    pairs = zip(found.workers, statuses, strict=True)
    return next((worker for worker, status in pairs if status.exit_status != 0), found.workers[0])


def _prefix(found: FoundRun, worker: Worker) -> str:
    from orchestrator.logs.view import prefixes

    return prefixes([w.record.host for w in found.workers])[worker.record.host]


def _end(status: Status) -> str:
    """Return `failed after 3 min: exit 1 (inferred)`."""
    from orchestrator.units import duration

    took = "" if status.took is None else f" after {duration(status.took)}"
    cause = f": {status.cause}" if status.cause else ""
    return f"{status.state}{took}{cause}{' (inferred)' if status.inferred else ''}"


def _end_line(found: FoundRun, worker: Worker, status: Status) -> str:
    several = len(found.spec.hosts) > 1
    where = f" on {worker.host.name}" if several and status.state != "succeeded" else ""
    whose = "" if status.exit_status in (0, None) else f"   (exit status {status.exit_status} is the run's)"
    state, rest = status.state, _end(status).removeprefix(status.state)
    return f"run     {found.id} {state}{where}{rest}{whose}"
