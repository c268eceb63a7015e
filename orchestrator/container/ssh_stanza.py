"""Stanzas for ~/.ssh/config, so that ssh, scp, rsync and editors reach the containers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.container.engine import Environment
from orchestrator.container.identity import slug
from orchestrator.inventory import Host

_FLAGS = {"-i": "IdentityFile", "-J": "ProxyJump", "-l": "User", "-p": "Port"}
"""Options of ssh(1) that ansible_ssh_common_args may hold, and their names in ssh_config(5)."""


def alias(host: Host, environment: Environment) -> str:
    """Return the name of a container for ssh: `orch-mnist-gpu01`."""
    return f"orch-{slug(environment.project)}-{host.name}"


def known_hosts_lines(host: Host, environment: Environment) -> list[str]:
    """Return the container's keys under its alias."""
    return [f"{alias(host, environment)} {key}" for key in environment.host_keys]


def stanza(host: Host, environment: Environment, known_hosts: Path) -> str:
    """Return the stanza of a container, and before it the one of its host where the inventory says how."""
    name = alias(host, environment)
    jump, before = _jump(host)
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
    if host.key:
        lines.append(f'    IdentityFile "{host.key}"')
    return "\n".join([*before, *lines]) + "\n"


def host_stanza(host: Host, environment: Environment) -> str:
    """Return what reaches the host, where no container with an sshd runs: its own name may do."""
    name, own = _jump(host)
    way = f"ssh {name}" if name else "this machine itself"
    what = f"# project {environment.project} on {host.name}: engine {environment.engine} has no sshd: {way}"
    return "\n".join([what, *own]).rstrip() + "\n"


def _jump(host: Host) -> tuple[str | None, list[str]]:
    """Return what to jump through, and its own stanza where ~/.ssh/config alone can't know it."""
    if host.connection == "local":
        return None, []
    own = list(_reached(host))
    if not own:
        return host.name, []
    name = f"orch-host-{host.name}"
    return name, [f"# {host.name}, as the inventory reaches it", f"Host {name}", *own, ""]


def _reached(host: Host) -> Iterator[str]:
    if host.address != host.name:
        yield f"    HostName {host.address}"
    if host.user:
        yield f"    User {host.user}"
    if host.port:
        yield f"    Port {host.port}"
    if host.key:
        yield f'    IdentityFile "{host.key}"'
    options = list(_options((*host.common_args, *host.extra_args)))
    yield from options
    if (host.user or host.port or host.key or options) and host.address == host.name:
        yield f"    HostName {host.name}"


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
