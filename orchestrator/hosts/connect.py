"""From a host of the inventory to a connected Machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError, HostError, Unreachable
from orchestrator.hosts.base import Machine
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.local import LocalMachine
from orchestrator.hosts.ssh_config import Route, resolve
from orchestrator.hosts.trust import KnownHosts, Prompt, policy_of
from orchestrator.inventory import Host

if TYPE_CHECKING:
    from orchestrator.hosts.ssh import SshMachine

_MOST_JUMPS = 8


def connect(host: Host, *, prompt: Prompt | None = None) -> Machine:
    """Reach a host. `prompt` asks a person about an unknown host key; without it such a key is refused.

    Raises Unreachable, NotPermitted, ConfigError, or HostError.
    """
    if host.connection == "local":
        return LocalMachine(host)
    args = (*host.common_args, *host.extra_args)
    try:
        route = resolve(host.address, user=host.user, port=host.port, args=args)
    except ConfigError as error:
        raise ConfigError(error.message, where=host.name, hint=error.hint) from error
    return _reach(host, route, prompt, ())


def _reach(host: Host, route: Route, prompt: Prompt | None, through: Sequence[str]) -> SshMachine:
    """Open a connection along a route; `through` are the jumps on the way that has led here."""
    from orchestrator.hosts import dial
    from orchestrator.hosts.keys import Identities, Login
    from orchestrator.hosts.opening import Door, open_connection
    from orchestrator.hosts.ssh import SshMachine

    behind = _jump(host, route, prompt, through) if route.jump else None
    limit = Limit(host.settings.timeout)  # a jump has its own; it is open by now

    def dialled(limit: Limit) -> object:
        if behind:
            return _through(behind, route)
        if route.command:
            return dial.ProxySocket(route.command)
        return dial.tcp(host.name, route.address, route.port, limit)

    policy = policy_of(host.settings.host_key_policy, host.came_from("host_key_policy") != "default", route)
    login = Login(
        host.name,
        route.user,
        Identities.of(route, host.key, host.sources.get("ansible_ssh_private_key_file")),
        limit,
    )
    try:
        trust = KnownHosts(host.name, route, policy, prompt)
        connection = open_connection(Door(host.name, route.address, route.port, dialled), trust, login, limit)
    except BaseException:
        if behind:
            behind.close()
        raise
    return SshMachine(host, connection, login, behind)


def _through(behind: Machine, route: Route) -> object:
    """Open the way from a jump to the host behind it."""
    try:
        return behind.tunnel(route.port, route.address)
    except HostError as error:
        raise Unreachable(error.message, where=error.where) from error


def _jump(host: Host, route: Route, prompt: Prompt | None, through: Sequence[str]) -> SshMachine:
    """Reach the last host of ProxyJump; it goes through those before it, or through its own ProxyJump."""
    before, _, last = (route.jump or "").rpartition(",")
    target = host.name.partition(" (through ")[0]
    if len(through) >= _MOST_JUMPS or last in through:
        way = " -> ".join((*through, last))
        raise ConfigError(f"ProxyJump leads round in a circle: {way}", where=target)
    name, port = _split(last)
    args = _config_file(host.common_args)
    step = resolve(name, port=port, args=args)
    if before:
        step = replace(step, jump=before, command=None)
    gateway = Host(
        name=f"{target} (through {name})",
        address=step.address,
        common_args=args,
        settings=host.settings,
        sources=host.sources,
    )
    return _reach(gateway, step, prompt, (*through, last))


def _config_file(args: Sequence[str]) -> tuple[str, ...]:
    """Return the -F of ssh's arguments: the only one that holds for the jumps too."""
    for at, word in enumerate(args):
        if word.startswith("-F"):
            return tuple(args[at : at + (2 if word == "-F" else 1)])
    return ()


def _split(jump: str) -> tuple[str, int | None]:
    """Part `[user@]host[:port]` or `ssh://...` into name and port."""
    text = jump.removeprefix("ssh://").rstrip("/")
    head, colon, port = text.rpartition(":")
    if colon and port.isdigit() and (head.endswith("]") or ":" not in head):
        return head.replace("[", "").replace("]", ""), int(port)
    return text.replace("[", "").replace("]", ""), None
