"""Values that no text for people may hold: they show as ***, however a script quotes them."""

from __future__ import annotations

import json
import re
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


_NAMED = r"(?:api[_-]?key|access[_-]?key|key|token|secret|passw(?:or)?d|passphrase|credential)s?"
_VALUE = (  # up to the quote where one has begun it, else one word
    r"(?:(?<=[\"'])[^\"'\n]{4,}?(?=\\?[\"'])|(?!(?:null|true|false|none)\b)[^\s\"',;&\]}]{4,})"
)
# Each begins where a word does, or at characters that its own repetition leaves out: else a line of a
# megabyte without a blank would take minutes.
_TOKENS = (
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(://[^/@\s:\"']*:)[^/@\s\"']+(?=@)"),
    re.compile(r"(\b(?:Bearer|Basic)\s+)[\w.~+/-]{8,}=*", re.IGNORECASE),
    # Of GitHub, GitLab, Hugging Face, OpenAI, Slack, npm, PyPI, AWS, Google; and signed JSON (RFC 7519).
    re.compile(
        r"()(?<![\w-])(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_\w{16,}|sk-[\w-]{16,}"
        r"|xox[abeprs]-[\w-]{10,}|npm_\w{16,}|pypi-[\w-]{16,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}"
        r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    ),
    # NAME=VALUE, "name": "value", and --name value: as a line, as JSON, as a list of words.
    re.compile(rf"({_NAMED}\\?[\"']?\s*[:=]\s*\\?[\"']?){_VALUE}", re.IGNORECASE),
    re.compile(rf"((?<![\w-])--[\w-]*{_NAMED}\\?[\"']?,?\s+\\?[\"']?)(?!-){_VALUE}", re.IGNORECASE),
)


def without_tokens(text: str) -> str:
    """Return `text` without what looks like a token, a password or a private key, whoever's it is.

    For what leaves a person's hands. It errs on the side of masking: `key: value` loses its value.
    """
    for pattern in _TOKENS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text
