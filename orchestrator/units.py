"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable


def size(count: int) -> str:
    """Return bytes in decimal units with at most three digits: `0 B`, `41 kB`, `1.2 GB`."""
    number, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if number < 999.5 or unit == "PB":
            break
        number /= 1000
    return f"{number:.1f} {unit}" if unit != "B" and number < 9.95 else f"{number:.0f} {unit}"


def duration(seconds: float) -> str:
    """Return a time span in its largest unit: `42 s`, `12 min`, `9 h`, `3 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def bytes_of(text: str) -> int:
    """Return a size as Docker writes it (`200m`, `8g`; powers of 1024) in bytes. Raises ValueError."""
    number = text.strip().lower().removesuffix("b")
    factor = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}.get(number[-1:], 1)
    digits = number if factor == 1 else number[:-1]
    if not digits.isascii() or not digits.isdigit():
        raise ValueError("not a size like 200m or 2g")
    return int(digits) * factor


def how_many(number: int, what: str) -> str:
    """Return a number of things: `1 file`, `3 files`."""
    return f"{number} {what}{'s' * (number != 1)}"


def dotted(numbers: Iterable[int]) -> str:
    """Return a version as it is written: `3.10.4`."""
    return ".".join(map(str, numbers))


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as people write them: `0-3,6`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
