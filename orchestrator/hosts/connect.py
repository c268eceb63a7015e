"""From a host of the inventory to a connected Machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from orchestrator.errors import ConfigError, OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.local import LocalMachine
from orchestrator.hosts.ssh_config import Route, resolve
from orchestrator.hosts.trust import KnownHosts, Prompt, policy_of
from orchestrator.inventory import Host

if TYPE_CHECKING:
    from orchestrator.hosts.gateways import Gateway
    from orchestrator.hosts.ssh import SshMachine

T = TypeVar("T")

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
        steps = way(route, _config_file(args))
    except ConfigError as error:
        raise ConfigError(error.message, where=host.name, hint=error.hint) from error
    return _reach(host, steps, prompt)


def way(route: Route, args: Sequence[str] = ()) -> tuple[Route, ...]:
    """Return the jumps to a host, the outermost first, and the host itself at the end.

    `a,b` in ProxyJump: b is next to the host and is reached through a, whatever ~/.ssh/config says of b.
    Raises ConfigError when they lead round in a circle.
    """
    steps, seen = [route], list[str]()
    while steps[0].jump:
        before, _, last = steps[0].jump.rpartition(",")
        if len(seen) >= _MOST_JUMPS or last in seen:
            raise ConfigError(f"ProxyJump leads round in a circle: {' -> '.join((*seen, last))}")
        seen.append(last)
        name, port = _split(last)
        step = resolve(name, port=port, args=args)
        steps.insert(0, replace(step, jump=before, command=None) if before else step)
    return tuple(steps)


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


def _reach(host: Host, steps: Sequence[Route], prompt: Prompt | None) -> SshMachine:
    """Open a connection to the last of the steps, through those before it."""
    from orchestrator.hosts import dial
    from orchestrator.hosts.keys import Identities, Login
    from orchestrator.hosts.opening import Door, open_connection
    from orchestrator.hosts.ssh import SshMachine

    route = steps[-1]
    if route.only_ssh:
        raise ConfigError(
            f"ssh_config has {route.only_ssh} for it, which only the ssh program can do", where=host.name
        )
    behind = _jump(host, steps[:-1], prompt)
    limit = Limit(_seconds(host, route))  # a jump has its own; it is open by now

    def dialled(limit: Limit) -> object:
        if behind:
            return _through(host, steps[-2], lambda: behind.machine.way_to(route.address, route.port, limit))
        if route.command:
            return dial.ProxySocket(route.command)
        return dial.tcp(host.name, route, limit)

    policy = policy_of(host.settings.host_key_policy, host.came_from("host_key_policy") != "default", route)
    named_at = host.sources.get("ansible_ssh_private_key_file")
    login = Login(host.name, route.user, Identities.of(route, host.key, named_at), limit)
    door = Door(host.name, route.address, route.port, dialled, route.algorithms)
    try:
        connection = open_connection(door, KnownHosts(host.name, route, policy, prompt), login, limit)
    except BaseException:
        if behind:
            behind.close()
        raise
    return SshMachine(host, connection, login, behind)


def _seconds(host: Host, route: Route) -> float:
    """Return the seconds to connect in: the inventory's word, else ConnectTimeout of ~/.ssh/config."""
    if host.came_from("timeout") == "default" and route.connect_timeout:
        return route.connect_timeout
    return host.settings.timeout


def _jump(host: Host, steps: Sequence[Route], prompt: Prompt | None) -> Gateway | None:
    """Open the jump that is next to the host, or take a share in it where another host has it open."""
    from orchestrator.hosts.gateways import share

    if not steps:
        return None
    gateway = Host(steps[-1].name, steps[-1].address, settings=host.settings, sources=host.sources)
    return _through(host, steps[-1], lambda: share(tuple(steps), lambda: _reach(gateway, steps, prompt)))


def _through(host: Host, step: Route, do: Callable[[], T]) -> T:
    """Do something at a jump; its error is told as the host's."""
    try:
        return do()
    except OrchError as error:
        message = f"through {step.name}: {error.message}"
        raise type(error)(message, where=host.name, hint=error.hint) from error
