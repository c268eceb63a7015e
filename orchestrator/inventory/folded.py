"""Many names as one word that `--hosts` takes: `gpu[01-03,07],login`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

FEWEST = 3
"""Names that are folded; two are shorter, and quicker read, side by side."""

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)\Z", re.DOTALL)


def folded(names: Iterable[str]) -> str:
    """Return names in the order of their first, those that differ in one number together."""
    families: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(names):
        families.setdefault(_family(name), []).append(name)
    return ",".join(word for key, members in families.items() for word in _words(key, members))


def _family(name: str) -> tuple[str, ...]:
    """Return what is around the last number of a name; the name itself where no range can stand for it."""
    match = _NUMBERED.match(name)
    return (name,) if not match or set("[],:") & set(name) else (match[1], match[3])


def _words(family: tuple[str, ...], members: Sequence[str]) -> Sequence[str]:
    if len(family) == 1 or len(members) < FEWEST:
        return members
    stem, end = family
    digits = (name[len(stem) : len(name) - len(end)] for name in members)
    return [f"{stem}[{_spans(sorted(digits, key=lambda d: (len(d), int(d))))}]{end}"]


def _spans(digits: Iterable[str]) -> str:
    runs: list[list[str]] = []
    for number in digits:
        if runs and int(runs[-1][1]) == int(number) - 1 and _one_range(runs[-1][0], number):
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(a if a == b else f"{a}-{b}" for a, b in runs)


def _one_range(first: str, last: str) -> bool:
    """Whether both are padded to one length, or none is padded."""
    return len(first) == len(last) or not (first.startswith("0") and len(first) > 1)
