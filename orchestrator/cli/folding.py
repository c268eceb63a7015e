"""The same words about many hosts are said once, with the names folded: `gpu[01-20]`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import OrchError
from orchestrator.inventory.folded import folded

if TYPE_CHECKING:
    from orchestrator.hosts.fleet import Outcome

T = TypeVar("T")

_NAME = "\0"  # stands for the host in words that are compared


def grouped(items: Iterable[T], same: Callable[[T], Hashable]) -> list[list[T]]:
    """Return the items in groups of those that are the same, in the order of the first ones."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(same(item), []).append(item)
    return list(groups.values())


def without_name(text: str | None, host: str) -> str:
    """Return words about a host that can be compared with those about another."""
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", _NAME, text or "")


def with_names(text: str, hosts: Sequence[str]) -> str:
    """Put the folded names of hosts where `without_name` took one away."""
    return text.replace(f"--hosts {_NAME}", f"--hosts {named(hosts)}").replace(_NAME, folded(hosts))


def named(hosts: Sequence[str]) -> str:
    """Return hosts as a word for a shell."""
    return shlex.quote(folded(hosts))


def folded_errors(outcomes: Iterable[Outcome[Any]]) -> list[OrchError]:
    """Return the errors, those that say the same of several hosts as one."""
    failed = [(o.host.name, o.error) for o in outcomes if o.error]
    return [_one(group) for group in grouped(failed, lambda f: (type(f[1]), *_parts(*f)))]


def _parts(host: str, error: OrchError) -> tuple[str, ...]:
    return tuple(without_name(t, host) for t in (error.message, error.where, error.hint, error.details))


def _one(group: Sequence[tuple[str, OrchError]]) -> OrchError:
    host, first = group[0]
    if len(group) == 1:
        return first
    names = [name for name, _ in group]
    message, where, hint, details = (with_names(part, names) or None for part in _parts(host, first))
    return type(first)(message or "", where=where, hint=hint, details=details)
