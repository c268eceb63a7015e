"""A host's network as it says itself: addresses, the ways to other hosts, published ports. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.run.cluster import Member, is_ip

_NEVER = ("lo", "docker0")
"""Interfaces that lead to no other host."""


@dataclass(frozen=True)
class Way:
    """The route to an address: by which interface, and from which of the host's own addresses."""

    interface: str
    source: str


@dataclass(frozen=True)
class Network:
    """What a host says of it. What is not known is empty."""

    own: tuple[tuple[str, str], ...] = ()  # interface and address
    ways: tuple[tuple[int, Way], ...] = ()  # rank of another host, and the way there
    ssh: str = ""  # the address at which ssh found it
    out: str = ""  # its address on the way to the world
    inside: str = ""  # the interface of the environment's way out
    published: Mapping[int, tuple[str, ...]] | None = None  # of the container: port -> addresses

    @property
    def sources(self) -> list[str]:
        """The host's own addresses on the ways to the others, each once, in the order of ranks."""
        return list(dict.fromkeys(w.source for _, w in self.ways if self.usable(w.source)))

    def usable(self, address: str) -> bool:
        """Whether another host might reach the address: not one of loopback, a single cable or docker0."""
        if not is_ip(address):
            return False
        found = ipaddress.ip_address(address.partition("%")[0])
        bad = found.is_loopback or found.is_link_local or found.is_unspecified
        return not bad and self.interface_of(address) not in _NEVER

    def interface_of(self, address: str) -> str:
        """Return the interface that has an address, "" for none."""
        return next((name for name, own in self.own if same(own, address)), "")

    def has(self, address: str) -> bool:
        """Whether an address is the host's own, as far as is known."""
        return not self.own or not is_ip(address) or bool(self.interface_of(address))

    def interfaces(self, member: Member) -> tuple[str, ...]:
        """Return the interfaces, as a worker sees them, by which the others are reached."""
        if member.bridge:
            return (self.inside,) if self.inside and self.inside not in _NEVER else ()
        named = [way.interface for _, way in self.ways if way.interface and way.interface not in _NEVER]
        return tuple(
            dict.fromkeys(named or [n for n in [self.interface_of(member.address)] if n not in ("", *_NEVER)])
        )

    def for_nccl(self, interfaces: tuple[str, ...]) -> str:
        """Return a value of NCCL_SOCKET_IFNAME: its names are prefixes, unless `=` stands before them."""
        others = {name for name, _ in self.own} - set(interfaces)
        exact = any(other.startswith(name) for other in others for name in interfaces)
        return ("=" if exact else "") + ",".join(interfaces)

    def way_to(self, rank: int) -> str:
        """Return the interface of the way to another host, "" where it is not known."""
        return next((way.interface for r, way in self.ways if r == rank), "")


def network(answer: Mapping[str, str], inside: str) -> Network:
    """Read the answer of `checks/look.sh.j2`."""
    ssh = answer.get("ssh", "").split()
    out = answer.get("way.out", "").split()
    published = answer.get("published")
    return Network(
        own=tuple(_own(answer.get("own", ""))),
        ways=tuple(_ways(answer)),
        ssh=ssh[2].removeprefix("::ffff:") if len(ssh) == 4 else "",
        out=out[1] if len(out) == 2 else "",
        inside=inside.partition("@")[0],
        published=None if published is None else _published(published),
    )


def _own(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, address = line.partition(" ")
        if is_ip(address):
            yield name.partition("@")[0], address


def _ways(answer: Mapping[str, str]) -> Iterator[tuple[int, Way]]:
    for key, value in answer.items():
        rank, words = key.removeprefix("way."), value.split()
        if key.startswith("way.") and rank.isdigit() and len(words) == 2:
            yield int(rank), Way(*words)


def _published(text: str) -> dict[int, tuple[str, ...]]:
    """Read `docker port`: `20000/tcp -> 10.0.0.1:20000`, `20000/tcp -> [::]:20000`."""
    found: dict[int, tuple[str, ...]] = {}
    for line in text.splitlines():
        inner, arrow, outer = line.partition(" -> ")
        port, _, kind = inner.partition("/")
        address, _, number = outer.strip().rpartition(":")
        if arrow and kind == "tcp" and port.isdigit() and number == port:
            found[int(port)] = (*found.get(int(port), ()), address.strip("[]"))
    return found


def same(one: str, other: str) -> bool:
    """Whether two texts are the same address; names are compared as they are."""
    if not is_ip(one) or not is_ip(other):
        return one == other
    return ipaddress.ip_address(one.partition("%")[0]) == ipaddress.ip_address(other.partition("%")[0])
