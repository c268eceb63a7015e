"""Stanzas for ~/.ssh/config, so that ssh, scp, rsync and editors reach the containers. Pure.

A `Route` is what ~/.ssh/config says of the host. A stanza of our own for the host repeats it: ssh looks up
the name that it is called with, and no other that a stanza gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.container.engine import Environment
from orchestrator.container.identity import slug
from orchestrator.hosts.ssh_config import Route
from orchestrator.inventory import Host

_PORT = 22
_FLAGS = {"-i": "IdentityFile", "-J": "ProxyJump", "-l": "User", "-p": "Port"}
"""Options of ssh(1) that ansible_ssh_common_args may hold, and their names in ssh_config(5)."""


def alias(host: Host, environment: Environment) -> str:
    """Return the name of a container for ssh: `orch-mnist-gpu01`."""
    return f"orch-{slug(environment.project)}-{host.name}"


def known_hosts_lines(host: Host, environment: Environment) -> list[str]:
    """Return the container's keys under its alias."""
    return [f"{alias(host, environment)} {key}" for key in environment.host_keys]


def stanza(host: Host, environment: Environment, known_hosts: Path, route: Route | None = None) -> str:
    """Return the stanza of a container, and before it the one of its host where the inventory says how."""
    name = alias(host, environment)
    jump, before = _jump(host, route)
    lines = [
        f"# project {environment.project} on {host.name}",
        f"Host {name}",
        f"    HostName 127.0.0.1\n    Port {environment.port}\n    User {environment.user}",
        f"    HostKeyAlias {name}",
        f'    UserKnownHostsFile "{known_hosts}"',
        "    StrictHostKeyChecking yes",
    ]
    if jump:
        lines.append(f"    ProxyJump {jump}")
    lines += _keys(host, route)
    return "\n".join([*before, *lines]) + "\n"


def host_stanza(host: Host, environment: Environment, route: Route | None = None) -> str:
    """Return what reaches the host, where no container with an sshd runs: its own name may do."""
    name, own = _jump(host, route)
    way = f"ssh {name}" if name else "this machine itself"
    what = f"# project {environment.project} on {host.name}: engine {environment.engine} has no sshd: {way}"
    return "\n".join([what, *own]).rstrip() + "\n"


def _jump(host: Host, route: Route | None) -> tuple[str | None, list[str]]:
    """Return what to jump through, and its own stanza where ~/.ssh/config alone can't know it."""
    if host.connection == "local":
        return None, []
    said = list(_said(host))
    if not said and host.address == host.name:
        return host.name, []
    name = f"orch-host-{host.name}"
    own = [f"    HostName {route.address if route else host.address}", *said]
    given = {line.split()[0].lower() for line in own}
    own += [line for line in _configured(host, route) if line.split()[0].lower() not in given]
    return name, [f"# {host.name}, as the inventory reaches it", f"Host {name}", *own, ""]


def _said(host: Host) -> Iterator[str]:
    """Yield what the inventory says of the way to a host."""
    if host.user:
        yield f"    User {host.user}"
    if host.port:
        yield f"    Port {host.port}"
    if host.key:
        yield from _keys(host, None)
    yield from _options((*host.common_args, *host.extra_args))


def _configured(host: Host, route: Route | None) -> Iterator[str]:
    """Yield what ~/.ssh/config says of it besides."""
    if not route:
        return
    yield f"    User {route.user}"
    if route.port != _PORT:
        yield f"    Port {route.port}"
    if route.jump:
        yield f"    ProxyJump {route.jump}"
    if route.command:
        yield f"    ProxyCommand {_plain(route.command)}"
    if route.key_alias:
        yield f"    HostKeyAlias {route.key_alias}"
    if files := " ".join(f'"{_plain(path)}"' for path in route.named_known_hosts):
        yield f"    UserKnownHostsFile {files}"
    yield from _keys(host, route)


def _keys(host: Host, route: Route | None) -> Iterator[str]:
    """Yield the keys that open the host and its container: no other stanza names them for this one."""
    files = (host.key,) if host.key else route.named_keys if route else ()
    for path in files:
        yield f'    IdentityFile "{_plain(path)}"'


def _plain(text: str) -> str:
    """Return a text in which ssh finds no token."""
    return text.replace("%", "%%")


def _options(words: Sequence[str]) -> Iterator[str]:
    """Turn arguments of ssh into lines of ssh_config: `-o K=V`, `-oK=V`, `-J x`; others have no such line."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, value = word[:2], word[2:] or (rest[0] if rest else "")
        if flag != "-o" and flag not in _FLAGS:
            continue
        if not word[2:] and rest:
            rest.pop(0)
        if flag == "-o":
            key, _, setting = value.replace("=", " ", 1).partition(" ")
            yield f"    {key} {setting.strip()}"
        else:
            yield f"    {_FLAGS[flag]} {value}"
