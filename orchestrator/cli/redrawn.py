"""A few lines that are drawn again and again in one place."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


def in_place() -> bool:
    """Whether what was written on stdout can be drawn over: a terminal that is not dumb."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def redrawn(plain: bool) -> Iterator[Callable[[str], None]]:
    """Redraw in place on a terminal; elsewhere, or `plain`, print one block after the other."""
    if plain or not in_place():
        yield lambda text: click.echo(f"{text}\n")
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # Left as it is, stdout still says whether it can show the bars' characters.
    with Live(console=Console(highlight=False), auto_refresh=False, redirect_stdout=False) as live:
        yield lambda text: live.update(Text(text), refresh=True)
