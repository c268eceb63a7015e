"""From a host of the inventory to a connected Machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from orchestrator.errors import OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.beyond import LoginRefused, NeedsProgram, NothingInCommon
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.local import LocalMachine
from orchestrator.hosts.ssh_config import Route
from orchestrator.hosts.steps import Step, by_program, config_file, has_ticket, has_token, steps_to
from orchestrator.hosts.trust import KnownHosts, Prompt, policy_of
from orchestrator.inventory import Host

if TYPE_CHECKING:
    from orchestrator.hosts.gateways import Gateway
    from orchestrator.hosts.openssh import OpenSshMachine
    from orchestrator.hosts.ssh import SshMachine

T = TypeVar("T")


def connect(host: Host, *, prompt: Prompt | None = None) -> Machine:
    """Reach a host. `prompt` asks a person about an unknown host key; without it such a key is refused.

    Raises Unreachable, NotPermitted, ConfigError, or HostError.
    """
    if host.connection == "local":
        return LocalMachine(host)
    steps = steps_to(host)
    try:
        return _reach(host, steps, prompt)
    except (LoginRefused, NeedsProgram, NothingInCommon) as error:
        if host.settings.transport != "auto" or not _is_worth_a_try(error, host, steps):
            raise
        return _by_program(host, steps, prompt, error)


def _is_worth_a_try(error: OrchError, host: Host, steps: Sequence[Step]) -> bool:
    if all(s.program for s in steps):
        return False
    if not isinstance(error, LoginRefused):
        return True
    return (host.key is None and has_token(steps)) or (any(s.route.gssapi for s in steps) and has_ticket())


def _by_program(host: Host, steps: Sequence[Step], prompt: Prompt | None, error: OrchError) -> Machine:
    """Reach a host by the ssh program; where it is refused as well, Fabric's error says more."""
    try:
        return _reach(host, by_program(steps), prompt)
    except LoginRefused:
        raise error from None


def _reach(host: Host, steps: Sequence[Step], prompt: Prompt | None) -> SshMachine | OpenSshMachine:
    """Open a connection to the last of the steps, through those before it."""
    step = steps[-1]
    if step.master:
        return on_master(host, step.route, step.master)
    behind = _jump(host, steps[:-1], prompt)
    opened = _by_ssh if step.program else _by_fabric
    try:
        return opened(host, steps, prompt, behind)
    except BaseException:
        if behind:
            behind.close()
        raise


def on_master(host: Host, route: Route, path: str) -> OpenSshMachine:
    """Use a live master of the user's."""
    from orchestrator.hosts.openssh import OpenSshMachine
    from orchestrator.hosts.openssh_identity import Identity

    return OpenSshMachine(host, path, Identity(route, None, known=False))


def _by_ssh(
    host: Host, steps: Sequence[Step], prompt: Prompt | None, behind: Gateway | None
) -> OpenSshMachine:
    from orchestrator.hosts.openssh import OpenSshMachine
    from orchestrator.hosts.openssh_identity import Identity
    from orchestrator.hosts.openssh_master import through
    from orchestrator.hosts.openssh_open import Wanted, open_master

    route = steps[-1].route
    limit = Limit(_seconds(host, route))
    jump = behind.machine if behind else None
    assert jump is None or isinstance(
        jump, OpenSshMachine
    )  # what lies before the program's step is the program's, too

    def way() -> None:
        if jump:
            _through(host, steps[-2].route, lambda: jump.way_to(route.address, route.port, limit)).close()

    proxy = through(jump.path) if jump else None
    policy = _policy(host, route)
    named_at = host.sources.get("ansible_ssh_private_key_file")
    args = (*host.common_args, *host.extra_args)
    wanted = Wanted(host.name, route, args, policy, host.key, named_at, proxy, way)
    master = open_master(wanted, KnownHosts(host.name, route, policy, prompt, certificates=True), limit)
    identity = Identity(route, master.said().accepted, known=True)
    return OpenSshMachine(host, master.path, identity, master, behind, lambda: _reach(host, steps, prompt))


def _by_fabric(
    host: Host, steps: Sequence[Step], prompt: Prompt | None, behind: Gateway | None
) -> SshMachine:
    from orchestrator.hosts import dial
    from orchestrator.hosts.keys import Identities, Login
    from orchestrator.hosts.opening import Door, open_connection
    from orchestrator.hosts.ssh import SshMachine

    route = steps[-1].route
    if route.only_ssh:
        raise NeedsProgram(
            f"ssh_config has {route.only_ssh} for it, which only the ssh program can do", where=host.name
        )
    limit = Limit(_seconds(host, route))  # a jump has its own; it is open by now

    def dialled(limit: Limit) -> object:
        if behind:
            jump = behind.machine
            return _through(host, steps[-2].route, lambda: jump.way_to(route.address, route.port, limit))
        if route.command:
            return dial.ProxySocket(route.command)
        return dial.tcp(host.name, route, limit)

    named_at = host.sources.get("ansible_ssh_private_key_file")
    login = Login(host.name, route.user, Identities.of(route, host.key, named_at), limit)
    door = Door(host.name, route.address, route.port, dialled, route.algorithms)
    trust = KnownHosts(host.name, route, _policy(host, route), prompt)
    connection = open_connection(door, trust, login, limit)
    return SshMachine(host, connection, login, behind, lambda: _reach(host, steps, prompt))


def _policy(host: Host, route: Route) -> str:
    return policy_of(host.settings.host_key_policy, host.came_from("host_key_policy") != "default", route)


def _seconds(host: Host, route: Route) -> float:
    """Return the seconds to connect in: the inventory's word, else ConnectTimeout of ~/.ssh/config."""
    if host.came_from("timeout") == "default" and route.connect_timeout:
        return route.connect_timeout
    return host.settings.timeout


def _jump(host: Host, steps: Sequence[Step], prompt: Prompt | None) -> Gateway | None:
    """Open the jump that is next to the host, or take a share in it where another host has it open."""
    from orchestrator.hosts.gateways import share

    if not steps:
        return None
    route = steps[-1].route
    args = config_file((*host.common_args, *host.extra_args))
    gateway = Host(route.name, route.address, common_args=args, settings=host.settings, sources=host.sources)
    return _through(host, route, lambda: share(tuple(steps), lambda: _reach(gateway, steps, prompt)))


def _through(host: Host, step: Route, do: Callable[[], T]) -> T:
    """Do something at a jump; its error is told as the host's."""
    try:
        return do()
    except OrchError as error:
        message = f"through {step.name}: {error.message}"
        raise type(error)(message, where=host.name, hint=error.hint) from error
