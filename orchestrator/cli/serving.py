"""What `tensorboard` and `jupyter` have in common: the living service or a new one, and a way to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.runs import Worker, read_records
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import Busy, HostError, Interrupted, UsageError

if TYPE_CHECKING:
    from orchestrator.run.record import Record
    from orchestrator.run.service import Service

ANSWERS = 180.0
"""Seconds in which a service has to answer: it loads TensorFlow, perhaps from a cold disk."""

_LOOK = 0.5  # seconds between two looks whether it answers

_LINES = 8
"""Lines of the log of a service that ended at once."""


def idle_seconds(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> float:
    """Read the value of --idle."""
    from orchestrator.units import seconds_of

    try:
        return 0.0 if value is None else seconds_of(value)
    except ValueError as error:
        raise UsageError(f"--idle {value}: {error}") from None


def served(app: App, service: Service) -> Worker:
    """Return the living service, else a new one, when it answers. Raises OrchError."""
    from orchestrator.hosts.forward import check_forwarding

    machine = app.machine(service.host)
    check_forwarding(machine, f"a {service.title} there")
    record = _living(app, service)
    if record:
        app.say(f"run     {record.spec.run} on {service.host.name}, which lives already")
        _tell_idle(app, service, record)
        run = record.spec.run
    else:
        run = _started(app, service)
    try:
        return Worker(service.host, _answering(app, service, run))
    except KeyboardInterrupt:
        hint = f"Its URL: orch {service.kind}, as before; to end it: orch stop {run}"
        raise Interrupted(f"run {run} goes on", where=service.host.name, hint=hint) from None


def _tell_idle(app: App, service: Service, record: Record) -> None:
    from orchestrator.units import spell

    if service.idle and service.idle != record.spec.idle:
        now = f"after {spell(record.spec.idle)}" if record.spec.idle else "never"
        app.say(f"note: for want of use it ends {now}, as it was started")


def _living(app: App, service: Service) -> Record | None:
    from orchestrator.run.status import judge

    found = read_records(
        app.machine(service.host), person=service.identity.person.slug, run=service.pattern, since=1
    )
    same = [r for r in found if service.is_this(r.spec) and judge(r).live]
    return max(same, key=lambda r: r.spec.asked, default=None)


def _started(app: App, service: Service) -> str:
    """Start it and return the run's id; where somebody else did so in this moment, that run's."""
    from orchestrator.cli.launching import Code, begin
    from orchestrator.run.service import service_bundle

    bundle = service_bundle()
    try:
        begun = begin(app, service.host, service.order(bundle), Code.of(bundle))
    except Busy:
        if other := _living(app, service):
            return other.spec.run
        raise
    run = begun.launched.spec.run
    app.say(f"run     {run} on {service.host.name}")
    return run


def _answering(app: App, service: Service, run: str) -> Record:
    """Wait until a service answers. Raises HostError for one that ends, or takes too long."""
    from orchestrator.run.service import port_of

    until = time.monotonic() + ANSWERS
    with WAITING.on([service.host.name]):
        while time.monotonic() < until:
            record = _record(app, service, run)
            if port_of(record):
                return record
            time.sleep(_LOOK)
    hint = f"It may still come: orch tail {run}; to end it: orch stop {run}"
    said = f"{service.title} did not answer within {ANSWERS:.0f} s"
    raise HostError(said, where=service.host.name, hint=hint)


def _record(app: App, service: Service, run: str) -> Record:
    """Return the record of a service that lives. Raises HostError for one that has ended."""
    from orchestrator.logs.view import last_lines
    from orchestrator.run.status import judge

    found = read_records(app.machine(service.host), run=run, tail=4000)
    record = next((r for r in found if r.spec.run == run), None)
    if record is None:
        raise HostError(f"there is no record of run {run} any more", where=service.host.name)
    status = judge(record)
    if not status.live:
        raise HostError(
            f"{service.title} has ended: {status.state}" + f", {status.cause}" * bool(status.cause),
            where=service.host.name,
            hint=f"What is known of it: orch why {run}",
            details="\n".join(last_lines(record.tail.encode(), _LINES)),
        )
    return record
