"""Run ids: they sort by time (UTC) and read aloud, as `20261130-0214-nightly-7f3a`."""

from __future__ import annotations

import re
import secrets
import time

from orchestrator.container.identity import slug
from orchestrator.errors import UsageError

ID = re.compile(r"\d{8}-\d{4}-[a-z0-9][a-z0-9-]*-[0-9a-f]{4}\Z")
"""The shape of a run id: date, time, name, four random hex digits."""


def new_id(name: str | None, *, now: float | None = None) -> str:
    """Return a fresh run id for a run called `name` (`run` when it has none)."""
    when = time.strftime("%Y%m%d-%H%M", time.gmtime(time.time() if now is None else now))
    return f"{when}-{slug(name) if name else 'run'}-{secrets.token_hex(2)}"


def check_name(name: str) -> str:
    """Return a run's name. Raises UsageError for one that would be taken for an id."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UsageError(
            f"run name {name!r} is not one word", hint="Use letters, digits, '.', '_' and '-', at most 64."
        )
    if name == "latest" or ID.match(name) or re.match(r"\d{8}-", name):
        raise UsageError(f"run name {name!r} would be taken for a run id", hint="Choose another name.")
    return name
