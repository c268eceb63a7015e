"""--json of every listing: one envelope, with a version. docs/json.md has each row's shape, and is tested."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

from orchestrator.errors import OrchError

VERSION = 1
"""Of the shapes: a key that goes or changes its meaning makes a new one, a new key does not."""


def print_json(
    listing: str,
    rows: Iterable[Mapping[str, Any]],
    errors: Iterable[tuple[str, OrchError | None]] = (),
    *,
    one_line: bool = False,
) -> None:
    """Print a listing, with the hosts of which nothing, or not all, could be listed."""
    failures = [_failure(host, error) for host, error in errors if error]
    shape = {"version": VERSION, "listing": listing, "rows": list(rows), "failures": failures}
    click.echo(json.dumps(shape, indent=None if one_line else 2))


def _failure(host: str, error: OrchError) -> dict[str, Any]:
    return {"host": host, "error": error.message, "hint": error.hint, "exit_code": error.exit_code}
