"""Where the workers of one run meet: a validated value, made of the inventory. It asks no host.

A member's address is where the *other* hosts reach it: `cluster_address`, else what the host itself says
(checks.py asks), else the inventory's where that is an IP address.
"""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.errors import ConfigError, HostError, UsageError
from orchestrator.inventory import Host

SPAN = "20000-20020"
"""The `cluster_ports` that errors propose."""

SKEW = 5.0
"""Seconds that the clocks of two hosts may differ."""

_NAMES_OF_SELF = ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain")


@dataclass(frozen=True)
class Member:
    """One host of a cluster."""

    host: str
    address: str = ""  # an IP address (IPv6 without brackets) or a name; empty: the host is still to be asked
    ports: tuple[int, ...] = ()  # what its workers may listen on; empty: any port that is free
    bridge: bool = False  # it is in a container with a network of its own, whose ports are published
    machine: tuple[str, ...] = ()  # by what it is reached: two names of one are one machine
    given: bool = False  # the address is a setting
    known_as: str = ""  # the inventory's address, where others may look for it while `address` is empty

    @property
    def candidate(self) -> str:
        """Where the others are likely to find it, before it was asked."""
        return self.address or self.known_as


@dataclass(frozen=True)
class Cluster:
    """The hosts of one run, in the order of ranks: 0 is the chief."""

    members: tuple[Member, ...]

    def at(self, addresses: Sequence[str]) -> Cluster:
        """Return the same with the addresses that hosts gave where none is set.

        Raises HostError for a member that still has none, or one that means itself to each host.
        """
        filled = [
            m if m.given else replace(m, address=a) for m, a in zip(self.members, addresses, strict=True)
        ]
        for member in filled:
            if not member.address or (is_loopback(member.address) and not self.one_machine):
                why = f"its own address is {member.address}" if member.address else "it names no address"
                raise HostError(
                    f"the other hosts can't reach it: {why}",
                    where=member.host,
                    hint="Set cluster_address for it in hosts.ini.",
                )
        return Cluster(tuple(filled))

    @property
    def one_machine(self) -> bool:
        """Whether all workers are on one machine (and in its one container, if any): loopback does then."""
        return len({m.machine for m in self.members}) == 1 and len(self.members) > 1

    def others(self, rank: int) -> tuple[Member, ...]:
        """Return all members but one."""
        return tuple(m for r, m in enumerate(self.members) if r != rank)


def cluster_of(hosts: Sequence[Host]) -> Cluster:
    """Make the cluster of a run's hosts, in rank order.

    Raises UsageError for a host named twice, ConfigError for settings by which the workers can't meet.
    """
    names = Counter(host.name for host in hosts)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise UsageError(f"host {twice[0]} is named twice: a run has one worker on a host")
    if len(hosts) == 1:
        return Cluster((Member(hosts[0].name),))
    members = tuple(_member(host) for host in hosts)
    if not Cluster(members).one_machine:
        _refuse_unpublished(hosts)
    _refuse_few(hosts, members)
    for host, member in zip(hosts, members, strict=True):
        if member.given:
            _refuse_address(host, one_machine=Cluster(members).one_machine)
    _refuse_shared(hosts, members)
    return Cluster(members)


def part(cluster: Cluster, rank: int, *, ports: Sequence[int], link: int, token: str) -> dict[str, Any]:
    """Return what one worker's launch.json says of the cluster; `ports` are the proved ones, by rank."""
    member = cluster.members[rank]
    return {
        "rank": rank,
        "hosts": [m.host for m in cluster.members],
        "addresses": [m.address for m in cluster.members],
        "ports": list(member.ports),
        "port": ports[rank],
        "link": link,
        "token": token,
    }


def endpoint(address: str, port: int) -> str:
    """Return `address:port`, an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def tf_config(addresses: Sequence[str], rank: int) -> str:
    """Return the TF_CONFIG of one worker, of all workers' `address:port` in rank order: one line of JSON."""
    task = {"type": "worker", "index": rank}
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": task})


def is_loopback(address: str) -> bool:
    """Whether an address means, on each host, that host itself; a wildcard does too."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address.lower().rstrip(".") in _NAMES_OF_SELF
    mapped = getattr(found, "ipv4_mapped", None) or found
    return bool(mapped.is_loopback or mapped.is_unspecified)


def is_ip(address: str) -> bool:
    """Whether an address is one, and not a name."""
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return True


def span(ports: str | None) -> tuple[int, ...]:
    """Return the ports of a setting such as 10000-10010; none for None."""
    begin, _, end = (ports or "").partition("-")
    return tuple(range(int(begin), int(end) + 1)) if ports else ()


def _member(host: Host) -> Member:
    settings, address = host.settings, host.settings.cluster_address or ""
    given = bool(address) and not _wildcard(address)
    return Member(
        host.name,
        address if given else "",
        span(settings.cluster_ports),
        bridge=settings.in_container and settings.network == "bridge",
        machine=_reached_by(host),
        given=given,
        known_as="" if is_loopback(host.address) or host.connection == "local" else host.address,
    )


def _reached_by(host: Host) -> tuple[str, ...]:
    if host.connection == "local":
        return ("local",)
    return (host.address, str(host.port or 22), *host.common_args, *host.extra_args)


def _wildcard(address: str) -> bool:
    return is_ip(address) and ipaddress.ip_address(address.partition("%")[0]).is_unspecified


def _refuse_unpublished(hosts: Sequence[Host]) -> None:
    """Say all at once of the containers that publish no port: each takes a deploy to mend."""
    shut = [h for h in hosts if h.settings.in_container and h.settings.network == "bridge"]
    shut = [h for h in shut if not h.settings.cluster_ports]
    if not shut:
        return
    names = ", ".join(h.name for h in shut)
    raise ConfigError(
        f"no other host can reach a worker in the container on {names}: network = bridge, and no "
        "cluster_ports",
        where=shut[0].where,
        hint=f"Write cluster_ports = {SPAN} (or network = host) for {names} in hosts.ini, then: "
        f"orch deploy --hosts {','.join(h.name for h in shut)}",
    )


def _refuse_few(hosts: Sequence[Host], members: Sequence[Member]) -> None:
    """The chief's supervisor needs a port beside its worker's."""
    chief = members[0]
    if len(chief.ports) == 1:
        raise ConfigError(
            f"cluster_ports = {hosts[0].settings.cluster_ports} is one port, and the first host of a run "
            "needs two",
            where=hosts[0].came_from("cluster_ports"),
            hint=f"Write cluster_ports = {SPAN} for {chief.host}, then: orch deploy --hosts {chief.host}",
        )


def _refuse_address(host: Host, *, one_machine: bool) -> None:
    """Refuse what means itself to each host, is good on one cable alone, or what Docker can't publish on."""
    settings, address = host.settings, host.settings.cluster_address or ""
    where, mend = host.came_from("cluster_address"), "Write the address by which the other hosts reach it."
    if is_loopback(address) and not one_machine:
        raise ConfigError(f"cluster_address = {address}: to each host that is itself", where=where, hint=mend)
    if is_ip(address) and ipaddress.ip_address(address.partition("%")[0]).is_link_local:
        raise ConfigError(
            f"cluster_address = {address}: a link-local address is none for a cluster", where=where, hint=mend
        )
    if settings.in_container and settings.network == "bridge" and not is_ip(address):
        raise ConfigError(
            f"cluster_address = {address}: a container's ports are published on an IP address, not a name",
            where=where,
            hint=mend,
        )


def _refuse_shared(hosts: Sequence[Host], members: Sequence[Member]) -> None:
    """Refuse one address for two hosts, as [all:vars] gives it, unless their ports tell them apart."""
    for second, member in enumerate(members):
        for first in range(second):
            other = members[first]
            if not member.given or member.address != other.address or member.machine == other.machine:
                continue
            if member.ports and other.ports and not set(member.ports) & set(other.ports):
                continue
            raise ConfigError(
                f"{other.host} and {member.host} have the same cluster_address = {member.address}",
                where=hosts[second].came_from("cluster_address"),
                hint="Write each host's own, on the host's line or in host settings.",
            )
