"""Logging in by hand, once: an ssh master that stays, and that every later call finds (`orch login`)."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.errors import ConfigError, NotPermitted
from orchestrator.hosts import openssh_sockets
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_master import lastingly, through, words
from orchestrator.hosts.openssh_mux import Control, Gone
from orchestrator.hosts.openssh_open import Wanted
from orchestrator.hosts.ssh_config import Route
from orchestrator.hosts.steps import config_file, steps_to
from orchestrator.hosts.trust import policy_of
from orchestrator.inventory import Host

HOURS = 8
"""How long a login lasts after its last use."""

_SECONDS = 5.0  # for an answer of a master
_OPTIONS = (
    f"ControlPersist={HOURS}h",
    "BatchMode=no",
    "ServerAliveInterval=60",
    "ServerAliveCountMax=5",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
)


@dataclass(frozen=True)
class Login:
    """A live master that leads to a host: its own, or that of the jump `at`."""

    at: str
    path: str
    kept: bool
    """Whether `orch login` made it; else it is the user's own."""
    here: bool
    """Whether it is the host's own."""


def look(host: Host) -> Login | None:
    """Return the login that leads to a host; None: there is none. Raises ConfigError."""
    steps = steps_to(host)
    at = steps[0]
    if at.master is None:
        return None
    kept = at.master == openssh_sockets.of_login(at.route)
    return Login(at.route.name, at.master, kept, len(steps) == 1)


def log_in(host: Host) -> Iterator[str]:
    """Log in to a host and to each jump before it; yield the name of each before ssh asks for it.

    ssh does the asking, on the terminal, and says itself what is wrong. Raises ConfigError, Unreachable,
    NotPermitted.
    """
    if host.settings.transport == "fabric":
        raise ConfigError("transport = fabric goes on with no login of ssh", where=host.name, hint="Set auto")
    openssh_sockets.folder()
    before: str | None = None
    steps = steps_to(host)
    for number, step in enumerate(steps):
        last = number + 1 == len(steps)
        if step.master is None:
            yield host.name if last else step.route.name
        before = step.master or _opened(host, step.route, before, last)


def _opened(host: Host, route: Route, before: str | None, last: bool) -> str:
    """Log in to one step, and return its socket."""
    _is_there(host, route, before)
    path = openssh_sockets.of_login(route)
    args = (*host.common_args, *host.extra_args)
    policy = policy_of(host.settings.host_key_policy, host.came_from("host_key_policy") != "default", route)
    strict = "StrictHostKeyChecking=" + {"strict": "yes"}.get(policy, policy)
    timeout = f"ConnectTimeout={max(1, round(host.settings.timeout))}"
    wanted = Wanted(
        host=host.name,
        route=route,
        args=args if last else config_file(args),
        named=host.key if last else None,
        proxy=lastingly(through(before)) if before else None,
        policy=policy,
    )
    _forget(path)
    done = subprocess.run(
        words(route, path, ("-f", *wanted.args), [strict, timeout, *_OPTIONS, *wanted.options()]), check=False
    )
    if done.returncode or openssh_sockets.kept(route) is None:
        raise NotPermitted(f"ssh could not log in to {route.name}; it said why", where=host.name)
    return path


def _is_there(host: Host, route: Route, before: str | None) -> None:
    """Raise Unreachable where nobody would answer."""
    from orchestrator.hosts.dial import tcp

    limit = Limit(host.settings.timeout)
    if before:
        from orchestrator.hosts.connect import on_master

        on_master(host, route, before).way_to(route.address, route.port, limit).close()
    elif not route.command:
        tcp(host.name, route, limit).close()


def _forget(path: str) -> None:
    """Remove a socket that nobody listens at any more."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def end(paths: Sequence[str]) -> int:
    """End the masters that `orch login` keeps at these sockets, and return how many there were."""
    found = []
    for path in paths:
        try:
            found.append(Control(path, Limit(_SECONDS)))
        except (Gone, TimeoutError):
            _forget(path)
    for control in found:  # one that leads to another may take it along
        with contextlib.closing(control), contextlib.suppress(Gone, TimeoutError, OSError):
            control.terminate(Limit(_SECONDS))
    return len(found)
