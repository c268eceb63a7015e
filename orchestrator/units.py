"""Numbers as people read them."""

from __future__ import annotations


def size(count: int) -> str:
    """Return bytes in decimal units with at most three digits: `0 B`, `41 kB`, `1.2 GB`."""
    number, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if number < 999.5 or unit == "PB":
            break
        number /= 1000
    return f"{number:.1f} {unit}" if unit != "B" and number < 9.95 else f"{number:.0f} {unit}"
