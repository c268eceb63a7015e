"""Numbers as people read them."""

from __future__ import annotations

import re
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


def spell(seconds: float) -> str:
    """Return a time span exactly, as `seconds_of` takes it: `1h`, `1h30m`, `90s` as `1m30s`."""
    left, words = round(seconds, 3), ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, length)
        words += f"{count:.0f}{unit}" if count else ""
    return words + f"{left:g}s" if left or not words else words


def seconds_of(text: str) -> float:
    """Return a time span (`90s`, `30m`, `1h`, `1d12h`; or seconds) in seconds. Raises ValueError."""
    word = text.strip().lower()
    found = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", word, re.ASCII)
    if not found or not word:
        raise ValueError("not a time like 90s, 30m, 1h or 1d12h")
    return sum(float(n or 0) * u for n, u in zip(found.groups(), (86400, 3600, 60, 1), strict=True))


def bytes_of(text: str) -> int:
    """Return a size as Docker writes it (`200m`, `8g`; powers of 1024) in bytes. Raises ValueError."""
    number = text.strip().lower().removesuffix("b")
    factor = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}.get(number[-1:], 1)
    digits = number if factor == 1 else number[:-1]
    if not digits.isascii() or not digits.isdigit():
        raise ValueError("not a size like 200m or 2g")
    return int(digits) * factor


def as_docker(count: int) -> str:
    """Return bytes as `bytes_of` takes them, in the largest unit that fits exactly: `64g`, `1536m`."""
    for unit, factor in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


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
