"""orch tail: the log of a run, live, until the run ends."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import colour, completing
from orchestrator.cli.app import App
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import INTERRUPTED, OK, LostConnection, OrchError

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun, Worker
    from orchestrator.logs.follow import Following
    from orchestrator.logs.session import Piece
    from orchestrator.logs.view import View
    from orchestrator.run.status import Status

LAST = 10
"""Lines of the log's end that `orch tail` begins with when it is shown without -n."""

_AHEAD = 64
"""Pieces read ahead of what is shown: memory does not grow with the log."""


@click.command("tail")
@host_options
@click.option("-n", "--lines", type=click.IntRange(0), help="Begin so many lines before the end.")
@click.option(
    "-f", "--follow", "_follow", is_flag=True, hidden=True, expose_value=False
)  # every hand types it
@click.option("--no-follow", is_flag=True, help="Show what is there and end.")
@click.option("--raw", is_flag=True, help="The file's bytes as they are (one worker).")
@click.argument("word", required=False, metavar="[RUN]", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    lines: int | None,
    no_follow: bool,
    raw: bool,
    word: str | None,
) -> int:
    """Show the log of a run as it grows, and end with the run's exit status. Ctrl-C ends only the watching.

    \b
      orch tail
      orch tail nightly -n 100
      orch tail --raw nightly > training.log
    """
    from orchestrator.cli.runs import find_run, only_worker

    found = find_run(app, word, hosts)
    if raw:
        only_worker(found)
    return follow_run(app, found, lines=lines, live=not no_follow, raw=raw)


def follow_run(
    app: App,
    found: FoundRun,
    *,
    lines: int | None = None,
    live: bool = True,
    raw: bool = False,
) -> int:
    """Show all workers' logs until the run ends; return the run's exit status, 130 after Ctrl-C."""
    screen = Screen([w.record.host for w in found.workers], raw=raw)
    try:
        for worker, piece in _pieces(app, found, lines, live):
            screen.show(worker.record.host, piece)
        screen.end()
    except KeyboardInterrupt:
        screen.end()
        app.say(f"\nthe run goes on:   orch tail {found.called}      orch stop {found.called}")
        return INTERRUPTED
    return report_end(app, _again(app, found)) if live else OK


class Screen:
    """Where pieces of logs become visible: stdout, line by line, or byte by byte where `raw`."""

    def __init__(self, hosts: Sequence[str], *, raw: bool) -> None:
        from orchestrator.logs.view import prefixes

        self._raw, self._terminal = raw, sys.stdout.isatty()
        self._prefixes = prefixes(hosts, colour=colour.shown(sys.stdout, os.environ))
        self._views: dict[str, View] = {}
        self._last = b""

    def show(self, host: str, piece: Piece) -> None:
        """Show what a piece of a host's log makes visible."""
        if self._raw:
            return self._write(piece.data)
        if piece.fresh and host in self._views:  # the file was truncated or replaced: a new log begins
            self._write(self._views.pop(host).end().encode())
        if host not in self._views:
            from orchestrator.logs.view import View

            through = self._terminal and len(self._prefixes) == 1
            beginning = piece.offset == 0
            self._views[host] = View(prefix=self._prefixes[host], through=through, beginning=beginning)
        return self._write(self._views[host].feed(piece.data).encode())

    def end(self) -> None:
        """Show what was held back of lines without an end."""
        for view in self._views.values():
            self._write(view.end().encode())
        if self._terminal and self._last not in (b"\n", b""):
            self._write(b"\n")  # what is said next begins a line of its own

    def _write(self, data: bytes) -> None:
        self._last = data[-1:] or self._last
        sys.stdout.flush()
        while data:
            data = data[os.write(1, data) :]


def _pieces(app: App, found: FoundRun, lines: int | None, live: bool) -> Iterator[tuple[Worker, Piece]]:
    """Yield the pieces of all workers' logs as they come, each read in a thread of its own."""
    pieces: queue.Queue[tuple[Worker, Piece | Exception | None]] = queue.Queue(_AHEAD)

    def read(worker: Worker) -> None:
        try:
            for piece in _following(app, worker, lines, live).pieces():
                pieces.put((worker, piece))
            pieces.put((worker, None))
        except Exception as error:  # told in the caller's thread
            pieces.put((worker, error))

    for worker in found.workers:
        threading.Thread(target=read, args=(worker,), daemon=True).start()
    left = len(found.workers)
    while left:
        worker, piece = pieces.get()
        if isinstance(piece, OrchError):
            app.say(f"orch: {piece}")
        elif isinstance(piece, Exception):
            raise piece
        elif piece is not None:
            yield worker, piece
            continue
        left -= 1


def _following(app: App, worker: Worker, lines: int | None, live: bool) -> Following:
    from orchestrator.logs.follow import Following

    return Following(
        app.machine(worker.host),
        lambda: app.connect(worker.host),
        worker.record.directory,
        lines=lines,
        live=live,
        told=lambda line: app.say(f"orch: {line}"),
    )


def _again(app: App, found: FoundRun) -> FoundRun:
    """Read the run's records once more: it has ended since."""
    from orchestrator.cli.runs import find_run

    hosts = [w.host.name for w in found.workers]
    try:
        return find_run(app, found.id, hosts)
    except LostConnection:  # the first connection, cut while the log came over later ones
        return find_run(app, found.id, hosts)


def report_end(app: App, found: FoundRun) -> int:
    """Say how the run ended, and return its exit status: of its first worker that has one other than 0."""
    from orchestrator.logs.view import last_lines
    from orchestrator.run.status import judge

    statuses = [judge(w.record) for w in found.workers]
    for worker, status in zip(found.workers, statuses, strict=True):
        for line in last_lines(worker.record.tail.encode(), LAST):
            app.say(f"  | {line}")
        app.say(_end_line(found, worker, status))
    bad = [s for s in statuses if s.exit_status != 0]
    if not bad:
        return OK
    return 1 if bad[0].exit_status is None else bad[0].exit_status


def _end_line(found: FoundRun, worker: Worker, status: Status) -> str:
    from orchestrator.units import duration

    took = ""
    if status.started and status.ended:
        took = f" after {duration(status.ended - status.started)}"
    where = f" on {worker.host.name}" if len(found.workers) > 1 else ""
    cause = f": {status.cause}" if status.cause else ""
    guess = " (inferred)" if status.inferred else ""
    whose = "" if status.exit_status in (0, None) else f"   (exit status {status.exit_status} is the run's)"
    return f"run     {found.id}{where} {status.state}{took}{cause}{guess}{whose}"
