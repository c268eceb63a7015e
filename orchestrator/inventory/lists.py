"""Lists by comma, with quotes where an item holds a comma itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

# A quote opens only at the start of an item or behind `=`: an apostrophe inside a word is a letter.
_ITEM = re.compile(r"""(?:(?<![^=,\s])"(?:[^"\\]|\\.)*"|(?<![^=,\s])'[^']*'|[^,])+""")

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def items(text: str) -> tuple[str, ...]:
    """Part a list by commas outside quotes; blanks around an item go, empty items too.

    `a, "b, c"` is `a` and `b, c`. Raises ValueError for a quote that is not closed.
    """
    return tuple(_unquoted(item) for item in pieces(text))


def pieces(text: str) -> list[str]:
    """Part a list as `items` does, with the quotes left on."""
    return [item.strip() for item in _ITEM.findall(text) if item.strip()]


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote not in ("'", '"'):
        return text
    if len(text) < 2 or not text.endswith(quote):
        raise ValueError(f"a quote is not closed, or something stands behind it: {text}")
    inner = text[1:-1]
    return inner if quote == "'" else re.sub(r'\\(["\\])', r"\1", inner)


def requirements(text: str) -> tuple[str, ...]:
    """Part pip requirements by commas: `numpy>=1.20,<1.24` and `pkg[a,b]` stay whole."""
    found: list[str] = []
    for item in re.split(r",(?![^\[]*\])", text):
        if re.match(r"\s*[<>=!~]=?", item) and found:
            found[-1] += "," + item.strip()
        elif item.strip():
            found.append(item.strip())
    return tuple(found)


def environment(text: str) -> Mapping[str, str]:
    """Read `A=1, B="two, words"`. Values are exact: blanks stay only in quotes.

    Raises ValueError for a name that no shell takes, a name given twice, or a quote that is not closed.
    """
    found: dict[str, str] = {}
    for piece in pieces(text):
        name, equals, value = piece.partition("=")
        if not equals or not _ENV_NAME.fullmatch(name.strip()):
            raise ValueError(f"expected NAME=VALUE,NAME=VALUE, got '{name}'")
        if name.strip() in found:
            raise ValueError(f"{name.strip()} is given twice")
        found[name.strip()] = _unquoted(value.strip())
    return MappingProxyType(found)
