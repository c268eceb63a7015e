"""A host's settings as text, as hosts.ini would write them, each with where it came from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from orchestrator.inventory.host import Host, Settings, Volume
from orchestrator.inventory.settings import CONNECTION

SECRET_NAME = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
"""What a variable's name has when its value is a secret."""

_WORDS = ("engine_command", "common_args", "extra_args")
_REACHING = tuple(dict.fromkeys(field for field, _ in CONNECTION.values()))


@dataclass(frozen=True)
class Described:
    """One value of a host: its name, its text (secrets masked), and where it came from."""

    name: str
    text: str
    source: str


def described(host: Host) -> list[Described]:
    """Return how a host is reached and all its settings, in the order of the fields."""
    found = [_one(host, name, getattr(host, name)) for name in _REACHING]
    return found + [_one(host, f.name, getattr(host.settings, f.name)) for f in fields(Settings)]


def _one(host: Host, name: str, value: Any) -> Described:
    text = shlex.join(value) if name in _WORDS else as_text(value)
    return Described(name, text, host.came_from(name))


def as_text(value: Any) -> str:
    """Return a typed value as text; what looks like a secret in it shows as ***."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Volume):
        return f"{value.source}:{value.target}{':ro' * value.read_only}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={'***' if SECRET_NAME.search(k) else _quoted(v)}" for k, v in value.items())
    if isinstance(value, tuple):
        return ", ".join(as_text(v) for v in value)
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"(://[^/@\s:]*):[^/@\s]+@", r"\1:***@", str(value))


def _quoted(value: str) -> str:
    """Quote a value of `env` where hosts.ini needs it."""
    if not re.search(r"[,\"']|^\s|\s$", value):
        return value
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'"{escaped}"'
