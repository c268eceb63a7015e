"""The nearest known word to one that isn't known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that `word` was probably meant to be, or None when none is close.

    `cutoff` is how alike they must be: 2 * letters in common / letters of both (difflib's ratio).
    """
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return close[0] if close else None
