"""Values that no text for people may hold: they show as ***, however a script quotes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from orchestrator.inventory.describe import SECRET_NAME

MASK = "***"

_LONG = 8  # a shorter value of a variable whose name says nothing (`EPOCHS=100`) is no secret
_NESTED = 3  # shells inside each other, each with quotes of its own

_hidden: set[str] = set()


def hide(value: str) -> None:
    """Mask this value from now on, for as long as the program runs."""
    if value.strip():
        _hidden.update((value, value.strip()))


def hide_environment(values: Mapping[str, str]) -> None:
    """Mask what variables hold, but for short values of names that don't sound like a secret."""
    for name, value in values.items():
        if len(value) >= _LONG or SECRET_NAME.search(name):
            hide(value)


def masked(text: str) -> str:
    """Return `text` without any hidden value: as it is, inside JSON, and inside nested shell quotes."""
    forms = {form for value in tuple(_hidden) for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def _forms(value: str) -> Iterable[str]:
    for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
        nested = form
        for _ in range(_NESTED + 1):
            yield nested
            nested = nested.replace("'", "'\"'\"'")
