"""A run on several hosts: it begins on all of them, or on none."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.container.start import answers
from orchestrator.errors import HostError, UsageError
from orchestrator.facts.lines import json_object
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host, quote
from orchestrator.inventory import Host
from orchestrator.render import render
from orchestrator.run.launch import Launched, Order

JOIN = 180
"""Seconds that a worker waits for the others: one may still be copying code on a slow disk."""

_BACK = 90.0
"""Seconds for a worker to be taken back."""


def workers(hosts: Sequence[Host], orders: Sequence[Order]) -> tuple[Order, ...]:
    """Return the orders of one run's workers, the chief first: one spec for all, under one id.

    Raises UsageError where the hosts' settings say different persons or projects, or a variable is ours.
    """
    chief = orders[0].spec
    for host, order in zip(hosts, orders, strict=True):
        for what in ("person", "project"):
            own, its = getattr(chief, what), getattr(order.spec, what)
            if own != its:
                message = f"{what} is {its} for {host.name} and {own} for {hosts[0].name}: a run has one"
                raise UsageError(message, hint=f"See: orch hosts -v {hosts[0].name} {host.name}")
        if "TF_CONFIG" in order.env:
            hint = "Leave it out: every worker gets its own."
            raise UsageError("TF_CONFIG of a run on several hosts is made by orch", hint=hint)
    names = tuple(sorted({name for order in orders for name in order.env}))
    spec = replace(chief, hosts=tuple(host.name for host in hosts), env=names)
    return tuple(replace(order, spec=spec, watch=0) for order in orders)


def withdraw(machine: Machine, order: Order, *, unknown: bool = False) -> None:
    """End a worker of a run that did not begin everywhere, and remove its record.

    `unknown`: its launch may still be under way. Raises HostError where something of it stays.
    """
    host, spec = machine.host.name, order.spec
    place = on_host(order.place).text
    asked = {"by": spec.by, "why": "not all hosts of the run took it", "grace": 0, "time": time.time()}
    text = render(
        "run/withdraw.sh.j2",
        place=place,
        run=spec.run,
        host=host,
        unknown=unknown,
        takes=order.takes,
        worker=f"{place}/runs/{quote(spec.run)}/{quote(host)}",
        stop=json.dumps(asked),
        grace=0,
        by=spec.by,
    )
    answer = answers(machine.run(Script("withdraw", text), deadline=_BACK).text)
    if answer.get("withdrawn") != "yes":
        why = answer.get("why") or "no answer"
        hint = f"See: orch ps {host}"
        raise HostError(f"run {spec.run} could not be taken back: {why}", where=host, hint=hint)


def met(machine: Machine, launched: Launched, watch: int) -> Mapping[str, Any]:
    """Wait until a worker's command runs or has ended, and then `watch` seconds; return its state.

    Raises HostError.
    """
    worker = f"{launched.place}/runs/{launched.spec.run}/{launched.host}"
    patience = JOIN + 30
    text = render("run/met.sh.j2", worker=worker, patience=patience, watch=watch)
    answer = answers(machine.ask(Script("met", text), deadline=patience + watch + 30.0).text)
    return json_object(answer.get("state"))
