"""On which port of the host a container's sshd is reached. Pure."""

from __future__ import annotations

from orchestrator.container.action import KEEP, PROVE, REPLACE, START, UNPAUSE
from orchestrator.container.cluster_ports import ports_of
from orchestrator.container.spec import SSH_PORT, ContainerSpec, Facts
from orchestrator.errors import Busy
from orchestrator.facts.docker import Container
from orchestrator.inventory import Host


def choose_port(host: Host, spec: ContainerSpec, facts: Facts, old: Container | None, action: str) -> int:
    """Choose the host's port for sshd. Raises Busy when the wished one is taken."""
    held = old.labels.get("orch.port", "") if old else ""
    own = int(held) if held.isdecimal() else None
    if action in (START, UNPAUSE, PROVE, KEEP) and own:
        return own
    free_soon = {own} if action == REPLACE else set()
    if spec.ssh_port is not None:
        _check_port(host, spec.ssh_port, facts, free_soon, old)
        return spec.ssh_port
    reserved = {p for c in facts.docker.containers for p in c.ports}
    taken = (facts.system.ports | set(facts.docker.holders) | reserved) - free_soon
    if own and own not in taken:
        return own
    taken |= ports_of(spec)
    return next(port for port in range(SSH_PORT, 65536) if port not in taken)


def _check_port(
    host: Host, port: int, facts: Facts, free_soon: set[int | None], old: Container | None
) -> None:
    holder = facts.docker.holders.get(port)
    if port in free_soon or (not holder and port not in facts.system.ports):
        return
    by = f"container {holder}" if holder else "another program of the host"
    place = host.came_from("ssh_port")
    hint = f"Set ssh_port = auto for {host.name} ({place}), or another port."
    if old and holder == old.name:
        hint = f"A run lives in it: wait for its end, or --replace ends it, or set ssh_port = auto ({place})."
    raise Busy(f"port {port} is taken by {by}", where=host.name, hint=hint)
