"""What a container has for runs on several hosts: published ports, the host's network, InfiniBand. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator.errors import Busy, ConfigError
from orchestrator.facts.docker import Container
from orchestrator.facts.system import SystemReport
from orchestrator.inventory import Host, Settings
from orchestrator.units import ranges

if TYPE_CHECKING:
    from orchestrator.container.spec import ContainerSpec

INFINIBAND = "/dev/infiniband"

EVERYWHERE = "0.0.0.0"


def takes_part(settings: Settings) -> bool:
    """Whether a container is meant for runs on several hosts."""
    return settings.network == "host" or bool(settings.cluster_ports)


def published(host: Host) -> str | None:
    """Return `ADDRESS:PORTS` for --publish, IPv6 in brackets; None where nothing is.

    Raises ConfigError for a cluster_address that is no IP address.
    """
    ports, address = host.settings.cluster_ports, host.settings.cluster_address or EVERYWHERE
    if not ports or host.settings.network == "host":
        return None
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        raise ConfigError(
            f"cluster_address = {address}: a container's ports are published on an IP address, not a name",
            where=host.came_from("cluster_address"),
            hint="Write the address by which the other hosts reach it.",
        ) from None
    return f"[{address}]:{ports}" if version == 6 else f"{address}:{ports}"


def ports_of(spec: ContainerSpec) -> set[int]:
    """Return the host's ports that a container publishes besides its sshd's."""
    begin, _, end = spec.cluster.rpartition(":")[2].partition("-") if spec.cluster else ("", "", "")
    span = range(int(begin), int(end) + 1) if begin else ()
    bridge = spec.network == "bridge"
    return {*span, *(int(port) for port in spec.publish if bridge)}


def check_cluster(host: Host, spec: ContainerSpec, system: SystemReport, beside: Container | None) -> None:
    """Raise ConfigError for an address that the host has not, Busy where `beside` holds the ports.

    `beside` is the old container, where it goes on because a run lives in it.
    """
    address = spec.cluster.rpartition(":")[0].strip("[]") if spec.cluster else ""
    own = [one for _, one in system.addresses]
    if address and own and not _is_own(address, own):
        raise ConfigError(
            f"cluster_address = {address} is none of {host.name}'s addresses: {', '.join(_outer(own))}",
            where=host.came_from("cluster_address"),
            hint="Write the one by which the other hosts reach it.",
        )
    both = ports_of(spec) & beside.ports if beside else set()
    if both:
        raise Busy(
            f"ports {ranges(sorted(both))} are those of {spec.name}, in which a run lives",
            where=host.name,
            hint=f"Wait for its end, or --replace ends it, or set other {_setting(host, spec, min(both))}.",
        )


def port_taken(host: Host, spec: ContainerSpec, port: int) -> Busy:
    """Return the error for a port that the engine could not publish."""
    return Busy(
        f"port {port} is taken there by now",
        where=host.name,
        hint=f"Set other {_setting(host, spec, port)}; who has it, says there: ss -ltnp",
    )


def cluster_notes(spec: ContainerSpec, system: SystemReport) -> Iterator[str]:
    """Yield what a person should know of a container that the world may reach."""
    if spec.network == "host":
        yield "network = host: ports that a run opens are the host's, for everybody who reaches it"
    exposed = _exposed(spec, system)
    if exposed:
        which = "the ports of a run" if spec.network == "host" else f"cluster_ports on {exposed[0]}"
        yield (
            f"WARN: TensorFlow lets in whoever reaches its port, and {', '.join(exposed)} "
            f"{'is' if len(exposed) == 1 else 'are'} public: a firewall must keep the world from {which}"
        )
    if f"--device={INFINIBAND}" in spec.options:
        yield f"InfiniBand: {INFINIBAND} is given to the container"


def _exposed(spec: ContainerSpec, system: SystemReport) -> list[str]:
    """Return the public addresses at which a run's ports can be reached."""
    own = [address for _, address in system.addresses if _is_public(address)]
    if spec.network == "host":
        return own
    address = spec.cluster.rpartition(":")[0].strip("[]") if spec.cluster else ""
    if not address or ipaddress.ip_address(address).is_unspecified:
        version = ipaddress.ip_address(address).version if address else 0
        return [one for one in own if ipaddress.ip_address(one).version == version]
    return [address] if _is_public(address) else []


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_global
    except ValueError:
        return False


def _is_own(address: str, own: list[str]) -> bool:
    wanted = ipaddress.ip_address(address)
    return wanted.is_unspecified or any(ipaddress.ip_address(one) == wanted for one in own)


def _outer(own: list[str]) -> list[str]:
    """Return addresses without those that no other host could reach."""
    found = [ipaddress.ip_address(one) for one in own]
    return [str(one) for one in found if not (one.is_loopback or one.is_link_local)]


def _setting(host: Host, spec: ContainerSpec, port: int) -> str:
    """Return the setting that asks for a port, with where it stands."""
    name = "publish" if str(port) in spec.publish else "cluster_ports"
    return f"{name} ({host.came_from(name)})"
