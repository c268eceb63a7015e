"""The way to a host, step by step, and what opens each: Fabric, or the ssh program where Fabric can't."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.errors import ConfigError
from orchestrator.hosts import openssh_sockets
from orchestrator.hosts.ssh_config import Route, resolve
from orchestrator.hosts.trust import by_certificate
from orchestrator.inventory import Host

_MOST_JUMPS = 8


@dataclass(frozen=True)
class Step:
    """A jump, or the host itself. `master` is the socket of a live master that is used as it is."""

    route: Route
    program: bool = False
    """Whether the ssh program opens it."""
    master: str | None = None


def steps_to(host: Host) -> tuple[Step, ...]:
    """Return the jumps to a host, the outermost first, and the host itself at the end.

    What lies before a live master is left out. Raises ConfigError.
    """
    args = (*host.common_args, *host.extra_args)
    try:
        route = resolve(host.address, user=host.user, port=host.port, args=args)
        if host.settings.transport == "fabric":
            return tuple(Step(r) for r in way(route, config_file(args)))
        return _steps(host, route, config_file(args))
    except ConfigError as error:
        raise ConfigError(error.message, where=host.name, hint=error.hint) from error


def _steps(host: Host, route: Route, args: Sequence[str]) -> tuple[Step, ...]:
    if not shutil.which("ssh"):
        if host.settings.transport == "openssh":
            raise ConfigError("transport = openssh, but there is no ssh program here")
        return tuple(Step(r) for r in way(route, args))
    if path := openssh_sockets.live(route):
        return (Step(route, True, path),)
    steps: list[Step] = []
    program = host.settings.transport == "openssh"
    for step in reversed(way(route, args)):
        path = openssh_sockets.live(step) if steps else None
        # the program reaches what is behind a jump by itself: all that lies before it must be its own, too
        program = program or bool(path) or needs_program(step, None if steps else host.key)
        steps.insert(0, Step(step, program, path))
        if path:
            break
    return tuple(steps)


def by_program(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the same way, each step opened by the ssh program."""
    return tuple(replace(s, program=True) for s in steps)


def needs_program(route: Route, named: str | None) -> bool:
    """Whether only the ssh program can log in there, as far as files tell. `named`: the inventory's key."""
    if route.only_ssh or by_certificate(route):
        return True
    if named:
        return _is_on_hardware(named)
    if route.key_provider:
        return True
    files = [f for f in route.identity_files if os.path.exists(f)]
    return bool(files) and all(_is_on_hardware(f) for f in files)


def _is_on_hardware(path: str) -> bool:
    """Whether a key file only points to a key on a FIDO token."""
    from orchestrator.hosts.key_files import public_of

    public = public_of(path)
    return bool(public and public.kind.startswith("sk-"))


def has_token(steps: Sequence[Step]) -> bool:
    """Whether one of the key files that ssh would try is on a FIDO token."""
    return any(_is_on_hardware(f) for s in steps for f in s.route.identity_files if os.path.exists(f))


def has_ticket() -> bool:
    """Whether a Kerberos ticket lies ready: asked only when everything else was refused."""
    if not shutil.which("klist"):
        return False
    asked = subprocess.run(["klist", "-s"], check=False, stdin=subprocess.DEVNULL, capture_output=True)
    return asked.returncode == 0


def way(route: Route, args: Sequence[str] = ()) -> tuple[Route, ...]:
    """Return the routes of the jumps to a host, the outermost first, and the host's own at the end.

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


def config_file(args: Sequence[str]) -> tuple[str, ...]:
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
