"""What a fact's script prints: lines of a key and its values, parted by tabs. Other lines are passed over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


class Lines:
    """A script's answer by key; a key may stand on many lines."""

    def __init__(self, text: str) -> None:
        self._found: dict[str, list[list[str]]] = {}
        for line in text.split("\n"):
            key, *values = line.rstrip("\r").split("\t")
            self._found.setdefault(key, []).append(values)

    def all(self, key: str, least: int = 0) -> Sequence[Sequence[str]]:
        """Return the values of every line of a key that has at least `least` of them."""
        return [values for values in self._found.get(key, ()) if len(values) >= least]

    def texts(self, key: str) -> list[str]:
        """Return what stands behind a key, for every line, tabs and all."""
        return ["\t".join(values) for values in self.all(key)]

    def text(self, key: str) -> str:
        """Return what stands behind the first line of a key; "" when there is none."""
        return next(iter(self.texts(key)), "")

    def number(self, key: str) -> int | None:
        """Return the whole number behind a key, None when there is none."""
        text = self.text(key).strip()
        return int(text) if text.removeprefix("-").isdecimal() else None


def json_object(text: str | None) -> dict[str, Any]:
    """Return the JSON object that a text holds; nothing where something else is in it."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
