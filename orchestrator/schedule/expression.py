"""When cron runs a line: five fields, or @daily and the like, as crontab(5) of Vixie's cron takes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.errors import UsageError

NICKNAMES = ("@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def values(self, text: str) -> set[int]:
        """Return the numbers that a field stands for. Raises ValueError saying what is wrong."""
        found: set[int] = set()
        for part in text.split(","):
            found.update(self._part(part))
        return found

    def _part(self, part: str) -> range:
        match = re.fullmatch(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", part, re.ASCII)
        if not match or (match.group(1) == "*" and match.group(2)):
            raise ValueError(f"{self.name} '{part}' can't be read")
        begin, end, step = match.groups()
        if step and begin != "*" and not end:
            raise ValueError(
                f"{self.name} '{part}': a step needs a range, such as {begin}-{self.high}/{step}"
            )
        if step and not int(step):
            raise ValueError(f"{self.name} '{part}': a step of 0")
        if begin == "*":
            return range(self.low, self.high + 1, int(step or 1))
        first = self._number(begin)
        last = self._number(end) if end else first
        if first > last:
            raise ValueError(f"{self.name} '{part}' runs backwards")
        return range(first, last + 1, int(step or 1))

    def _number(self, word: str) -> int:
        if word.lower() in self.names:
            return self.low + self.names.index(word.lower())
        if not word.isdigit() or not self.low <= int(word) <= self.high:
            raise ValueError(f"{self.name} '{word}' is not in {self.low}-{self.high}")
        return int(word)


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)


def check(expression: str) -> str:
    """Return an expression with single blanks. Raises UsageError when cron would refuse it or never fire."""
    words = expression.split()
    if len(words) == 1 and words[0].lower() in NICKNAMES:
        return words[0].lower()
    if len(words) == 1 and words[0].startswith("@"):
        raise UsageError(f"--cron '{expression}': known are {', '.join(NICKNAMES)}")
    if len(words) != len(_FIELDS):
        raise UsageError(
            f"--cron '{expression}': expected five fields (minute hour day month weekday), got {len(words)}"
        )
    try:
        values = [field.values(word) for field, word in zip(_FIELDS, words, strict=True)]
    except ValueError as error:
        raise UsageError(f"--cron '{expression}': {error}") from None
    _, _, days, months, _ = values
    if words[4].startswith("*") and min(days) > max(_LONGEST[month - 1] for month in months):
        raise UsageError(f"--cron '{expression}': there is no such day")
    return " ".join(words)
