"""A run on several hosts: it begins on all of them, or on none."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.container.start import answers
from orchestrator.errors import HostError, UsageError
from orchestrator.facts.lines import json_object
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host, quote
from orchestrator.hosts.masking import hide
from orchestrator.inventory import Host
from orchestrator.render import render
from orchestrator.run.cluster import Cluster, part
from orchestrator.run.launch import Launched, Order
from orchestrator.run.spec import RunSpec

JOIN = 180
"""Seconds that a worker waits for the others: one may still be copying code on a slow disk."""

_BACK = 90.0
"""Seconds for a worker to be taken back."""


@dataclass(frozen=True)
class Party:
    """The hosts of one run in the order of ranks, the chief first, and the order for the worker on each."""

    hosts: tuple[Host, ...]
    orders: tuple[Order, ...]

    @property
    def spec(self) -> RunSpec:
        """What is asked of the run: the same on all hosts."""
        return self.orders[0].spec

    def rank(self, host: str) -> int:
        """Return the rank of the worker on a host."""
        return self.spec.hosts.index(host)

    def order(self, host: str) -> Order:
        """Return the order for the worker on a host."""
        return self.orders[self.rank(host)]

    def anew(self) -> Party:
        """Return the same under an id that is drawn anew."""
        spec = self.orders[0].anew().spec
        return Party(self.hosts, tuple(replace(order, spec=spec) for order in self.orders))


def party(hosts: Sequence[Host], orders: Sequence[Order]) -> Party:
    """Make one run of orders for its hosts: one spec for all, under one id.

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
    return Party(tuple(hosts), tuple(replace(order, spec=spec, watch=0) for order in orders))


def introduced(
    party: Party,
    cluster: Cluster,
    *,
    ports: Sequence[int],
    link: int,
    network: Sequence[Mapping[str, str]],
) -> Party:
    """Tell each worker of the others, with a token that is drawn.

    `ports` were found free by rank, `link` is one more of the chief's; variables of `network` give way to
    the person's own.
    """
    token = secrets.token_hex(32)
    hide(token)

    def told(rank: int, order: Order) -> Order:
        own = part(cluster, rank, ports=ports, link=link, token=token)
        return replace(order, cluster={**own, "join": JOIN}, env={**network[rank], **order.env})

    return Party(party.hosts, tuple(told(rank, order) for rank, order in enumerate(party.orders)))


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
        asked=json.dumps(spec.asked),
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
    answer = answers(machine.ask(Script("met", text, asks=True), deadline=patience + watch + 30.0).text)
    return json_object(answer.get("state"))
