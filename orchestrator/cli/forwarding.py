"""The way from a port of this machine to a service, for as long as somebody wants it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.runs import Worker
from orchestrator.errors import FAILED, INTERRUPTED, OK, HostError, OrchError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.forward import Forward, Way
    from orchestrator.run.record import Record
    from orchestrator.run.status import Status

LOOK = 30.0
"""Seconds between two looks whether the service lives: it may be stopped elsewhere."""


SOON = 2.0
"""Seconds before which it is not looked again, also where nobody answered there."""


def forward(app: App, worker: Worker, port: int | None, preferred: int, url: Callable[[int], str]) -> int:
    """Print the URL of a service and lead there until Ctrl-C or its end. Returns the exit code.

    `port` is that of this machine; without one `preferred` where it is free. Raises OrchError where there is
    no way.
    """
    from contextlib import closing

    from orchestrator.hosts.forward import Forward, listener
    from orchestrator.run.service import TITLES, port_of

    title, run = TITLES[worker.record.spec.kind], worker.record.spec.run
    there = port_of(worker.record) or 0
    with closing(listener(port, preferred)) as sock:
        way = _way(worker, app.machine(worker.host))
        leading = Forward(
            sock,
            there,
            way,
            lambda: _way(worker, app.connect(worker.host)),
            lambda line: app.say(f"orch: {line}"),
        )
        click.echo(url(sock.getsockname()[1]))
        app.say(f"Ctrl-C ends the way there, {title} goes on; to end it:   orch stop {run}")
        with closing(leading):
            return _lead(app, worker, leading, title)


def _lead(app: App, worker: Worker, leading: Forward, title: str) -> int:
    look = Look(app, worker, leading)
    try:
        leading.serve(look.over)
    except KeyboardInterrupt:
        kind, run = worker.record.spec.kind, worker.record.spec.run
        app.say(f"\n{title} goes on:   orch {kind}      orch stop {run}")
        return INTERRUPTED
    if look.status is None:
        app.say(f"orch: {worker.host.name}: the record of {title} is gone")
        return FAILED
    cause = f": {look.status.cause}" if look.status.cause else ""
    app.say(f"{title} has ended: {look.status.state}{cause}")
    return FAILED if look.status.state in ("failed", "lost") else OK


def _way(worker: Worker, machine: Machine) -> Way:
    from orchestrator.container.engine import Environment
    from orchestrator.hosts.forward import way_to

    there = Environment.read(_environment(worker.record))
    if there is None:
        run = worker.record.spec.run
        raise HostError(f"the record of run {run} does not say where it runs", where=worker.host.name)
    return way_to(machine, there.port, user=there.user, host_keys=there.host_keys)


def _environment(record: Record) -> str:
    """Return the environment that a run is in, as JSON; a later deploy may have made another one."""
    import json

    return json.dumps(record.worker.get("environment"))


class Look:
    """Whether the service is over: asked now and then, and where nobody answered there."""

    def __init__(self, app: App, worker: Worker, leading: Forward) -> None:
        self._app, self._worker, self._leading = app, worker, leading
        self._next = time.monotonic() + LOOK
        self.status: Status | None = None

    def over(self) -> bool:
        """Look, if it is time to. A host that is silent says nothing."""
        from orchestrator.cli.runs import read_records
        from orchestrator.run.status import judge

        hurry = self._leading.refused.is_set() and time.monotonic() >= self._next - LOOK + SOON
        if time.monotonic() < self._next and not hurry:
            return False
        self._leading.refused.clear()
        self._next = time.monotonic() + LOOK
        run = self._worker.record.spec.run
        try:
            found = read_records(self._app.machine(self._worker.host), run=run)
        except OrchError:
            return False
        self.status = next((judge(r) for r in found if r.spec.run == run), None)
        return self.status is None or not self.status.live
