"""What differs between two specs, in the words of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.container.image.source import Source


@dataclass(frozen=True)
class Difference:
    """One setting that is not as it was. `old` and `new` are for people."""

    field: str
    old: str = ""
    new: str = ""
    words: str = ""  # instead of both

    def __str__(self) -> str:
        return f"{self.field}: {self.words}" if self.words else f"{self.field} {self.old} -> {self.new}"


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], source: Source | None = None
) -> tuple[Difference, ...]:
    """Compare two specs as they stand in JSON, field by field. An unknown field of `old` is passed over.

    `source` names the files behind the digests of the new one.
    """
    found = [d for name in new for d in _field(name, old.get(name), new[name]) if name != "source"]
    then = old.get("source")
    found += [Difference("build", words=words) for words in source.changed(then)] if source and then else []
    others = [d for d in found if d.field != "recipe"]
    explained = any(d.field in _IN_RECIPE for d in others)
    return tuple(others if explained else found)


_IN_RECIPE = frozenset({"image", "packages", "apt_packages", "jupyter", "build"})
"""Fields that are part of the recipe too: with one of them, the recipe's change needs no line of its own."""


def _field(name: str, old: Any, new: Any) -> Iterator[Difference]:
    old, new = _plain(old), _plain(new)
    if old == new:
        return
    if name == "env":
        yield from _env(old or {}, new)
    elif isinstance(new, list):
        yield from _list(name, old or [], new)
    elif name == "recipe":
        yield Difference("recipe", "what the image was built of", "as it is now")
    elif name == "startup":
        yield Difference(
            "startup", "none" if old is None else "old text", "none" if new is None else "new text"
        )
    else:
        yield Difference(name, _show(old), _show(new))


def _plain(value: Any) -> Any:
    """Return a value as it comes back from JSON."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _env(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            was = "set" if name in old else "unset"
            yield Difference(
                f"env {name}", was, "another value" if was == "set" and name in new else _set(name, new)
            )


def _set(name: str, env: Mapping[str, str]) -> str:
    return "set" if name in env else "unset"


def _list(name: str, old: list[Any], new: list[Any]) -> Iterator[Difference]:
    gone, come = [v for v in old if v not in new], [v for v in new if v not in old]
    if not gone and not come:
        yield Difference(name, "one order", "another order")
    else:
        yield Difference(name, ", ".join(map(str, gone)) or "none", ", ".join(map(str, come)) or "none")


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value.get('name')} ({value.get('uid')}:{value.get('gid')})"
    if value is None:
        return "default"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
