"""--json of every listing: one envelope, with a version. docs/json.md has each row's shape, and is tested."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from orchestrator.errors import BAD_CONFIG, USAGE, OrchError

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


@contextlib.contextmanager
def failing_as(listing: str | None) -> Iterator[None]:
    """Print an empty listing where a host's error ends the block; it goes on. None: without --json."""
    try:
        yield
    except OrchError as error:
        if listing and error.exit_code not in (USAGE, BAD_CONFIG):
            print_json(listing, (), [(error.where or "", error)])
        raise


def _failure(host: str, error: OrchError) -> dict[str, Any]:
    return {"host": host, "error": error.message, "hint": error.hint, "exit_code": error.exit_code}
