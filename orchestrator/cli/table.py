"""Aligned columns, as quiet as `ps` prints them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of left-aligned columns, two blanks apart; on a terminal the last one is cut to fit."""
    everything = [head, *rows]
    widths = [max(len(row[i]) for row in everything) for i in range(len(head))]
    return fit(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in everything
    )


def fit(lines: Iterable[str]) -> list[str]:
    """Cut lines to the width of the terminal; none where stdout is no terminal."""
    return [cut(line) for line in lines] if sys.stdout.isatty() else list(lines)


def cut(line: str) -> str:
    """Return a line that fits the terminal's width."""
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else line[: width - 1] + "~"
