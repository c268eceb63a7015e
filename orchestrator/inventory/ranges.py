"""Ranges of names: `gpu[01:08]`, `gpu[1:9:2]`, `rack[a:c]-gpu[1:2]`, as Ansible reads them.

Where Ansible's answer is a trap (a reversed range names no host at all), this is an error.
"""

from __future__ import annotations

import itertools
import re
from string import ascii_letters

LIMIT = 10_000
"""Names that one word may stand for; more is taken for a slip of the keyboard."""

_RANGE = re.compile(r"\[([^\[\]:]*):([^\[\]:]*)(?::([^\[\]:]*))?\]")


def is_range(text: str) -> bool:
    """Whether `text` holds a range in brackets."""
    return _RANGE.search(text) is not None


def expand(text: str) -> list[str]:
    """Return all names that `text` stands for, the last range turning fastest.

    Raises ValueError saying what is wrong with a range.
    """
    choices: list[list[str]] = []
    count, last = 1, 0
    for start, end in (m.span() for m in _RANGE.finditer(text)):
        names = _names(text[start:end])
        count *= len(names)
        if count > LIMIT:
            raise ValueError(f"{text} stands for more than {LIMIT} names")
        choices += [[text[last:start]], names]
        last = end
    return ["".join(parts) for parts in itertools.product(*choices, [text[last:]])]


def _names(span: str) -> list[str]:
    match = _RANGE.fullmatch(span)
    assert match
    begin, end, step = match.group(1) or "0", match.group(2), match.group(3)
    if not end:
        raise ValueError(f"range {span} has no end")
    if step is not None and not (step.isascii() and step.isdigit() and int(step)):
        raise ValueError(f"range {span}: the step must be a number above 0")
    every = int(step or 1)
    if begin in ascii_letters and end in ascii_letters and len(begin) == len(end) == 1:
        return _letters(span, begin, end, every)
    return _numbers(span, begin, end, every)


def _letters(span: str, begin: str, end: str, step: int) -> list[str]:
    first, last = ascii_letters.index(begin), ascii_letters.index(end)
    if first > last:
        raise ValueError(f"range {span} runs backwards")
    return list(ascii_letters[first : last + 1 : step])


def _numbers(span: str, begin: str, end: str, step: int) -> list[str]:
    if not (f"{begin}{end}".isascii() and begin.isdigit() and end.isdigit()):
        raise ValueError(f"range {span} is neither of numbers nor of single letters")
    padded = any(number.startswith("0") and len(number) > 1 for number in (begin, end))
    if padded and len(begin) != len(end):
        raise ValueError(f"range {span}: both ends need the same number of digits")
    first, last = int(begin), int(end)
    if first > last:
        raise ValueError(f"range {span} runs backwards")
    if (last - first) // step >= LIMIT:
        raise ValueError(f"range {span} stands for more than {LIMIT} names")
    width = len(begin) if padded else 0
    return [str(n).zfill(width) for n in range(first, last + 1, step)]
