"""Which settings are not what a host was deployed with: told at a launch and by doctor."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.container.inputs import Inputs, short_digest
from orchestrator.inventory import Host

DEPLOYED = frozenset(
    [
        "engine",
        "activate",
        "python",
        "image",
        "dockerfile",
        "build_context",
        "tensorflow",
        "requirements",
        "apt_packages",
        "startup",
        "jupyter",
        "gpus",
        "network",
        "cluster_address",
        "cluster_ports",
        "ssh_port",
        "publish",
        "volumes",
        "shm_size",
        "memory",
        "cpus",
        "container_user",
        "authorized_keys",
        "env",
        "env_file",
        "ca_bundle",
        "pip_index",
        "apt_mirror",
    ]
)
"""Settings that a deploy puts into effect."""

AT_ONCE = frozenset(
    [
        "project",
        "person",
        "root",
        "engine_command",
        "secret",
        "host_key_policy",
        "transport",
        "remote_path",
        "parallel",
        "timeout",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ]
)
"""Settings that count from the next command on, or say which deploy is meant."""


def noted(host: Host, inputs: Inputs, unused: Sequence[str] = ()) -> dict[str, str]:
    """Return each setting that a deploy puts into effect, with what its files hold, as a digest."""
    contents: Mapping[str, Any] = {
        # Local paths: the same files lie elsewhere on another laptop.
        "dockerfile": os.path.basename(host.settings.dockerfile or ""),
        "build_context": os.path.basename(host.settings.build_context or ""),
        "engine": "auto" if host.picked else host.settings.engine,
        "requirements": inputs.requirements,
        "startup": inputs.startup,
        "ca_bundle": inputs.ca_bundle,
        "authorized_keys": inputs.keys,
        "env": dict(host.settings.env),
        "env_file": {n: v for n, v in inputs.env.items() if n not in host.settings.env},
    }
    names = DEPLOYED - set(unused)
    values = {name: contents.get(name, getattr(host.settings, name)) for name in sorted(names)}
    return {name: short_digest(json.dumps(value, default=repr)) for name, value in values.items()}


def changed(deployed: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of settings that are others now; what is not recorded is not compared."""
    return tuple(name for name in now if deployed.get(name, now[name]) != now[name])


def told(host: Host, names: Sequence[str]) -> str:
    """Return in a line which settings have changed: `shm_size (hosts.ini:12)`."""
    listed = ", ".join(f"{name} ({host.came_from(name)})" for name in names)
    return f"changed since the deploy of {host.name}: {listed}"
