"""The algorithms that ~/.ssh/config allows for a host, as far as paramiko can do them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_KEYWORDS = {
    "KexAlgorithms": "_preferred_kex",
    "Ciphers": "_preferred_ciphers",
    "MACs": "_preferred_macs",
    "HostKeyAlgorithms": "_preferred_keys",
    "PubkeyAcceptedAlgorithms": "_preferred_pubkeys",
}

Allowed = tuple[tuple[str, tuple[str, ...]], ...]
"""Keywords of ssh_config(5) with the names that each allows, the preferred one first."""


class NoneLeft(Exception):
    """ssh_config allows only what paramiko can't do; the text names the keyword and its values."""


def allowed(values: Mapping[str, Sequence[str]]) -> Allowed:
    """Return the lists that `ssh -G` prints; what it doesn't print is not limited."""
    found = ((keyword, values.get(keyword.lower())) for keyword in _KEYWORDS)
    return tuple((keyword, tuple(lines[0].split(","))) for keyword, lines in found if lines and lines[0])


def keep_to(transport: Any, lists: Allowed) -> None:
    """Let a transport use allowed algorithms only, in ssh's order. Raises NoneLeft."""
    for keyword, names in lists:
        attribute = _KEYWORDS[keyword]
        own = getattr(transport, attribute)
        kept = tuple(name for name in names if name in own)
        # ssh's first cipher needs one pass over the data, and is none of paramiko's: then those that do, too.
        if keyword == "Ciphers" and kept and kept[0] != names[0]:
            kept = tuple(sorted(kept, key=own.index))
        if not kept and keyword != "PubkeyAcceptedAlgorithms":  # that one is about RSA keys alone
            raise NoneLeft(f"{keyword} {','.join(names)}")
        setattr(transport, attribute, kept)
