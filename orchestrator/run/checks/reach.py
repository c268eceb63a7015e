"""Whether each worker reaches each: a listener in each environment, and a connection from each to each."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.container.start import answers
from orchestrator.errors import Busy, HostError, OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.hosts.fleet import each
from orchestrator.hosts.kept import Kept
from orchestrator.inventory import Host
from orchestrator.render import render, source
from orchestrator.run.checks.look import Look, spoken
from orchestrator.run.checks.telling import Pair, complaints
from orchestrator.run.cluster import Cluster

WINDOW = 20
"""Seconds in which each must have reached each; execs on busy hosts begin seconds apart."""

_MARGIN = 60.0


@dataclass(frozen=True)
class Matrix:
    """What became of all connections. `errors` are of hosts that could not be asked."""

    looks: tuple[Look, ...]
    pairs: tuple[Pair, ...]
    taken: tuple[tuple[int, int], ...] = ()  # rank and port, on which nobody could listen
    errors: tuple[OrchError, ...] = ()

    @property
    def complaints(self) -> list[OrchError]:
        """What stands against the run, the root of each failure once; empty: all is well."""
        return [*self.errors, *self._taken(), *self._failed()]

    @property
    def line(self) -> str:
        """One line for people."""
        count, failed = len(self.pairs), sum(pair.how != "ok" for pair in self.pairs)
        if failed:
            return f"reach   {failed} of {count} ways failed, from environment to environment"
        return f"reach   each of {len(self.looks)} hosts reaches each, from environment to environment"

    def _taken(self) -> Iterator[OrchError]:
        for rank, port in self.taken:
            yield Busy(
                f"port {port} was taken by another in the meantime",
                where=self.looks[rank].host,
                hint="Try again.",
            )

    def _failed(self) -> Iterator[OrchError]:
        known = [pair for pair in self.pairs if (pair.target, pair.port) not in self.taken]
        yield from complaints(known, self.looks)


def reach(
    machines: Mapping[str, Machine], looks: Sequence[Look], cluster: Cluster, *, window: float = WINDOW
) -> Matrix:
    """Have all hosts listen and connect at once, one exec each; `machines` by the hosts' names.

    What listens ends by itself, also when nobody waits for it any more.
    """
    looks, token = tuple(looks), secrets.token_hex(16)
    ranks = {seen.host: rank for rank, seen in enumerate(looks)}

    def work(machine: Machine) -> dict[str, Any]:
        rank = ranks[machine.host.name]
        return _asked(machine, looks[rank], asked(looks, cluster, rank, token, window), window)

    hosts: list[Host] = [machines[seen.host].host for seen in looks]
    outcomes = each(hosts, work, connect=Kept(lambda host: machines[host.name]).connect, parallel=len(hosts))
    pairs: list[Pair] = []
    taken: list[tuple[int, int]] = []
    silent = {rank for rank, outcome in enumerate(outcomes) if outcome.error}
    for rank, outcome in enumerate(outcomes):
        found = outcome.value or {}
        taken += ((rank, port) for port in found.get("taken", ()))
        if rank not in silent:
            pairs += (pair for pair in ways(rank, looks, found.get("pairs", ())) if pair.target not in silent)
    return Matrix(looks, tuple(pairs), tuple(taken), tuple(o.error for o in outcomes if o.error))


def ways(rank: int, looks: Sequence[Look], said: Iterable[Sequence[Any]]) -> list[Pair]:
    """Return every way out of a host, by what its script said; one that it left out has failed."""
    known = {(target, port): (how, words) for target, port, how, words in said}
    return [
        Pair(rank, target, port, *known.get((target, port), ("timeout", "")))
        for target, seen in enumerate(looks)
        for port in seen.listens
        if target != rank
    ]


def asked(looks: Sequence[Look], cluster: Cluster, rank: int, token: str, window: float) -> dict[str, Any]:
    """Return what one host's script has to do."""
    targets = [
        {"rank": r, "address": cluster.members[r].address, "port": port}
        for r, seen in enumerate(looks)
        for port in seen.listens
        if r != rank
    ]
    peers = [r for r in range(len(looks)) if r != rank]
    own = {"rank": rank, "token": token, "listen": list(looks[rank].listens)}
    return {**own, "peers": peers, "targets": targets, "window": window}


def script(seen: Look, wanted: Mapping[str, Any]) -> Script:
    """Return the script for one host."""
    inner = render("checks/reach.py.j2", asked=wanted, ports=source("checks/ports.py") or "")
    place = on_host(seen.environment.place).text
    return Script(
        "reach", render("checks/reach.sh.j2", place=place, asked=wanted, script=inner.strip()), asks=True
    )


def _asked(machine: Machine, seen: Look, wanted: Mapping[str, Any], window: float) -> dict[str, Any]:
    result = machine.run(script(seen, wanted), deadline=window + _MARGIN)
    text = answers(result.text).get("inside", "")
    found = spoken(text)
    if not found:
        said = text.strip().splitlines() or [result.complaint]
        raise HostError(f"the ports could not be tried: {said[-1]}", where=seen.host)
    return found
