"""A connection that failed, told with its likely cause and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.errors import HostError, OrchError
from orchestrator.run.checks.look import Look
from orchestrator.run.cluster import endpoint


@dataclass(frozen=True)
class Pair:
    """One connection. `how`: ok, refused, timeout, route, name, stranger, other; `words`: of the system."""

    source: int
    target: int
    port: int
    how: str
    words: str = ""


_HOW = {
    "refused": "connection refused",
    "timeout": "timed out",
    "route": "no route",
    "name": "the name is not known there",
    "stranger": "something else answers there",
}


def complaints(pairs: Sequence[Pair], looks: Sequence[Look]) -> Iterator[OrchError]:
    """Yield an error for each port that was not reached, and how; those who failed alike stand in one."""
    alike: dict[tuple[int, int, str], list[Pair]] = {}
    for pair in pairs:
        if pair.how != "ok":
            alike.setdefault((pair.target, pair.port, pair.how), []).append(pair)
    for found in alike.values():
        yield complaint(found[0], looks, others=[pair.source for pair in found[1:]])


def complaint(pair: Pair, looks: Sequence[Look], others: Sequence[int] = ()) -> OrchError:
    """Return the error for a pair that failed: who can't reach whom, by which interface, and why.

    `others` are the ranks of those who failed in the same way.
    """
    source, target = looks[pair.source], looks[pair.target]
    interface = source.network.way_to(pair.target) or ",".join(source.network.interfaces(source.member))
    by = f" by {interface}" if interface else ""
    how = _HOW.get(pair.how, pair.words or "it failed")
    sources = [source, *(looks[rank] for rank in others)]
    why, hint = _cause(pair, sources, target)
    to = f"{target.host} at {endpoint(target.member.address, pair.port)}"
    where = ",".join(seen.host for seen in sources)
    return HostError(f"can't reach {to}{by}: {how}{why}", where=where, hint=hint)


def _cause(pair: Pair, sources: Sequence[Look], target: Look) -> tuple[str, str]:
    """Return the likely cause, as it goes on behind `how`, and the hint."""
    source, address, member = sources[0], target.member.address, target.member
    set_in = target.sources.get("cluster_address")
    if not target.network.has(address):
        own = ", ".join(f"{a} ({name})" for name, a in target.network.own if target.network.usable(a))
        where = f" ({set_in})" if set_in else ""
        return f"; {address} is none of {target.host}'s addresses: {own}", f"Correct cluster_address{where}."
    if pair.how == "name":
        return "", f"Write an IP address as cluster_address of {target.host}."
    if pair.how == "route" and ":" in address and source.member.bridge:
        hint = "Give Docker one (ipv6 and fixed-cidr-v6 in /etc/docker/daemon.json), or set network = host."
        return f"; the container on {source.host} may have no IPv6", hint
    if pair.how == "route":
        hint = f"Set cluster_address of {target.host} to an address in a network that both are in."
        return f"; {source.host} is in another network", hint
    if pair.how == "stranger":
        return "", f"See who has the address {address}, or the port: ss -ltnp on {target.host}."
    ports = f"{member.ports[0]}-{member.ports[-1]}" if member.ports else str(pair.port)
    allow = f"Let TCP {ports} in from {', '.join(seen.member.address for seen in sources)} on {target.host}"
    verb = "drops" if pair.how == "timeout" else "refuses"
    return (
        f"; a firewall on the way or on {target.host} {verb} it",
        f"{allow} (iptables -L -n, nft list ruleset, ufw status).",
    )
