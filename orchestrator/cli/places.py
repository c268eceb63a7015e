"""Files on a command line: HOST:PATH, RUN:PATH, and paths here; and how lists of files are told."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.line import Line
    from orchestrator.inventory import Host


@dataclass(frozen=True)
class Place:
    """A path on a host; `~/` is the account's home there."""

    machine: Machine
    path: str
    project: str = ""  # the folder on the host of the project that it belongs to, where it is a run's


def find_place(app: App, text: str) -> Place | None:
    """Return the place that HOST:PATH or RUN:PATH means, None for a path here (as scp tells them apart).

    RUN/HOST:PATH is that of a run's worker on a host, where no file here is called so. A relative path is in
    the account's home, or in the run's `work/`.
    """
    from orchestrator.cli.runs import FoundRun, only_worker
    from orchestrator.cli.target import find_run_or_host, is_host

    word, colon, path = text.partition(":")
    if not colon or not word or ("/" in word and not _is_worker(app, word, text)):
        return None
    if is_host(app, word):
        hosts = app.changed([word])
        if len(hosts) != 1:
            raise UsageError(f"{word} is {len(hosts)} hosts", hint="Name one.")
        return _in_home(app, hosts[0], path)
    found = find_run_or_host(app, word)
    if not isinstance(found, FoundRun):
        return _in_home(app, found, path)
    worker = only_worker(found, by_word=True)
    whole = posixpath.join(worker.record.directory, "work", path)
    return Place(_reached(app, worker.host), whole, worker.record.place)


def _is_worker(app: App, word: str, text: str) -> bool:
    host = word.partition("/")[2]
    return any(host == h.name for h in app.inventory.hosts) and not (app.cwd / text).exists()


def _in_home(app: App, host: Host, path: str) -> Place:
    whole = path.startswith(("/", "~/")) or path == "~"
    return Place(_reached(app, host), path if whole else posixpath.join("~", path))


def _reached(app: App, host: Host) -> Machine:
    with WAITING.on([host.name]):
        return app.machine(host)


PATIENCE = 900.0
"""Seconds that a transfer waits for a host that is away."""


def line_to(app: App, machine: Machine) -> Line:
    """Return a line to a host that comes back by itself when it is cut, and says so."""
    from orchestrator.hosts.line import Line

    return Line(
        machine,
        lambda: app.connect(machine.host),
        told=lambda words: app.say(f"orch: {words}"),
        patience=PATIENCE,
    )


def inside_work(path: str) -> str:
    """Return a path below a run's `work/`. Raises UsageError when it leads out of it."""
    inside = posixpath.normpath(path)
    if inside.startswith(("/", "../")) or inside == "..":
        raise UsageError(f"{path} is not in the run's work folder", hint="Other files: orch cp HOST:PATH .")
    return "" if inside == "." else inside


def counted(count: int, total: int) -> str:
    """Return `3 files, 41 kB`."""
    from orchestrator.units import how_many, size

    return f"{how_many(count, 'file')}, {size(total)}"


def shown(name: str) -> str:
    """Return a name fit for a line of text: bytes that are no text, and control characters, as escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def moment(mtime: int) -> str:
    """Return a time of a file, as local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(mtime))
