"""Aligned columns, as quiet as `ps` prints them, and lines that keep to the terminal's width."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

_NARROWEST = 20
"""Columns that a wrapped text needs to be worth it."""


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of left-aligned columns, two blanks apart; on a terminal the last one is cut to fit."""
    everything = [head, *rows]
    widths = [max(width(row[i]) for row in everything) for i in range(len(head))]
    return fit(
        "  ".join(padded(cell, w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in everything
    )


def width(text: str) -> int:
    """Return how many columns a text takes: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def padded(text: str, columns: int) -> str:
    """Return a text with blanks up to so many columns."""
    return text + " " * (columns - width(text))


def fit(lines: Iterable[str]) -> list[str]:
    """Cut lines to the width of the terminal; none where stdout is no terminal."""
    return [cut(line) for line in lines] if sys.stdout.isatty() else list(lines)


def cut(line: str, room: int | None = None) -> str:
    """Return a line that fits into so many columns; without a number, into the terminal's."""
    room = room or shutil.get_terminal_size().columns
    if width(line) <= room:
        return line
    while line and width(line) >= room:
        line = line[: min(len(line) - 1, room)]
    return line + "~"


def wrapped(text: str, indent: int, *, to: TextIO | None = None) -> str:
    """Return a text that begins at a column and goes on there; on a terminal that has the room for it.

    `to` is where it will be printed: stdout, unless it is said.
    """
    room = shutil.get_terminal_size().columns - indent
    if not (to or sys.stdout).isatty() or room < _NARROWEST:
        return text
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines)
