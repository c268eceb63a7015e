"""Which hosts a person means: names, groups, globs, ranges, joined by commas, some left out (`!`, `&`)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.errors import ConfigError, UsageError
from orchestrator.inventory.grammar import ALL, UNGROUPED
from orchestrator.inventory.host import Host
from orchestrator.inventory.layers import Layers
from orchestrator.inventory.names import check_name, ipv6
from orchestrator.inventory.nearest import nearest
from orchestrator.inventory.ranges import expand, is_range

_DOTS = re.compile(r"(.*?)(\d+)\.\.(\d+|\1\d+)(\D.*)?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Selection:
    """The chosen hosts, and whether each was asked for by its own name (not by a group, glob or range)."""

    hosts: tuple[Host, ...]
    by_name: bool


@dataclass(frozen=True)
class _Match:
    hosts: tuple[Host, ...]
    by_name: bool = False


class Chooser:
    """Finds hosts in the layers."""

    def __init__(self, layers: Layers, files: Sequence[str], is_named: Callable[[str], bool]) -> None:
        self._layers, self._files, self._is_named = layers, files, is_named
        self._known = {host.name: host for host in layers.hosts}

    def select(self, patterns: Sequence[str], exclude: Sequence[str]) -> Selection:
        """Choose hosts in the order they are asked for. Raises UsageError when a pattern matches nothing."""
        wanted, both, unwanted = list[str](), list[str](), list(_words(exclude))
        if not patterns and not self._known:
            raise self._empty(None)
        _refuse_empty(patterns)
        for word in _words(patterns):
            {"!": unwanted, "&": both}.get(word[0], wanted).append(word.removeprefix("!").removeprefix("&"))
        matches = [self._match(word) for word in wanted or [ALL]]
        chosen = {host.name: host for match in matches for host in match.hosts}
        for word in both:
            names = self._names(word, chosen)
            chosen = {name: host for name, host in chosen.items() if name in names}
        for word in unwanted:
            for name in self._names(word, chosen):
                chosen.pop(name, None)
        if not chosen:
            asked = ",".join([*(wanted or [ALL]), *(f"&{word}" for word in both)])
            raise UsageError(
                f"no host is left of {asked}" + f" without {','.join(unwanted)}" * bool(unwanted)
            )
        return Selection(tuple(chosen.values()), not both and all(match.by_name for match in matches))

    def _names(self, word: str, chosen: Collection[str]) -> set[str]:
        """Return the names that `!word` or `&word` is about. A name that nobody knows is a slip there."""
        names = {host.name for host in self._match(word).hosts}
        for name in names.difference(self._known, chosen):
            raise UsageError(f"no host {name}{self._in_files()}", hint=self._guess(name))
        return names

    def _match(self, word: str) -> _Match:
        if word in self._known:
            return _Match((self._known[word],), by_name=True)
        members = self._group(word)
        if members is not None:
            return self._some(word, members)
        if word.startswith("~"):
            raise UsageError(
                f"'{word}': no regular expressions here", hint="Globs and ranges: gpu*, gpu[01-04]"
            )
        spelled = _spelled(word)
        if any(c in word for c in "*?"):
            return self._some(word, self._globbed(spelled))
        self._refuse_position(word, spelled)
        if is_range(spelled) or "," in word:  # in brackets: those outside part words
            return _Match(tuple(self._named(name, word) for name in _expanded(spelled, word)))
        return _Match((self._named(word, word),), by_name=True)

    def _refuse_position(self, word: str, spelled: str) -> None:
        """Refuse `lab[0]` and `lab[0:2]`, Ansible's hosts of a group by position; ranges are of names."""
        group, bracket, _ = word.partition("[")
        if (
            bracket
            and group in self._layers.groups
            and not self._known.keys() & set(_expanded(spelled, word))
        ):
            hint = "Globs and ranges of names: gpu*, gpu[01-04]"
            raise UsageError(f"'{word}': no positions in a group here", hint=hint)

    def _group(self, name: str) -> Iterable[str] | None:
        if name == ALL:
            return list(self._known)
        if name == UNGROUPED:
            return [h.name for h in self._layers.hosts if not h.groups]
        return self._layers.groups.get(name)

    def _globbed(self, spelled: str) -> list[str]:
        globs = _expanded(spelled, spelled)
        groups = [g for g in self._layers.groups if any(fnmatch.fnmatchcase(g, glob) for glob in globs)]
        below = {name for group in groups for name in self._layers.groups[group]}
        return [n for n in self._known if n in below or any(fnmatch.fnmatchcase(n, glob) for glob in globs)]

    def _some(self, word: str, names: Iterable[str]) -> _Match:
        hosts = tuple(self._known[name] for name in names if name in self._known)
        if not hosts and not self._known:
            raise self._empty(word)
        if not hosts:
            raise UsageError(f"'{word}' matches no host{self._in_files()}", hint=self._guess(word))
        return _Match(hosts)

    def _empty(self, word: str | None) -> UsageError | ConfigError:
        if self._files:
            return ConfigError("no host in this inventory", where=self._files[-1])
        what = f"'{word}' matches no host" if word else "no host is named"
        hint = (
            "Write one with 'orch init HOST', or name hosts (--hosts NAME) or an inventory (--inventory FILE)"
        )
        return UsageError(f"{what}, and there is no hosts.ini", hint=hint)

    def _named(self, name: str, word: str) -> Host:
        """Return the host of that name; one that no inventory has is for ssh, unless it looks like a slip."""
        if name in self._known:
            return self._known[name]
        if name in self._layers.left_out:
            raise ConfigError(self._layers.left_out[name], where=name)
        ssh_name = _ssh_name(name)
        words = [*self._known, *self._layers.groups]
        of = f" ({word})" if word != name else ""
        if words and (of or nearest(name, words, 0.75)) and (of or not self._is_named(ssh_name)):
            raise UsageError(f"no host {name}{of}{self._in_files()}", hint=self._guess(name))
        return self._layers.stranger(ssh_name)

    def _guess(self, word: str) -> str | None:
        near = nearest(word, [*self._known, *self._layers.groups])
        return f"Did you mean {near}?" if near else None

    def _in_files(self) -> str:
        return f" in {', '.join(self._files)}" if self._files else ""


def _refuse_empty(patterns: Sequence[str]) -> None:
    """Refuse words that name nothing: `orch down "$HOST"` without a HOST would mean all hosts."""
    for pattern in patterns:
        if not pattern.strip(", !&:"):
            hint = "Is a variable of the shell empty? All of them: all"
            raise UsageError(f"'{pattern}' names no host", hint=hint)


def _words(patterns: Sequence[str]) -> Iterable[str]:
    """Part patterns by commas outside brackets; `lab:!gpu01` and `lab:&fast` are Ansible's spelling."""
    for pattern in patterns:
        for word in re.split(r",(?![^\[]*\])|:(?=[!&])", pattern):
            if word.strip():
                yield word.strip()


def _spelled(word: str) -> str:
    """Write `gpu01..04` and `gpu[01-04]` as the inventory does: `gpu[01:04]`."""
    dots = _DOTS.fullmatch(word)
    if dots:
        stem, begin, end, tail = dots.groups(default="")
        return f"{stem}[{begin}:{end.removeprefix(stem)}]{tail}"
    return _BRACKETS.sub(lambda m: f"[{m.group(1).replace('-', ':')}]", word)


def _expanded(spelled: str, word: str) -> list[str]:
    """Expand ranges; `gpu[01:04,07]` is `gpu[01:04]` and `gpu07`."""
    listed = re.search(r"\[([^\[\]]*,[^\[\]]*)\]", spelled)
    if listed:
        head, tail = spelled[: listed.start()], spelled[listed.end() :]
        spans = [f"[{part}]" if ":" in part else part for part in listed.group(1).split(",")]
        return [name for span in spans for name in _expanded(head + span + tail, word)]
    return _or_usage(lambda: expand(spelled))


def _or_usage(work: Callable[[], list[str]]) -> list[str]:
    try:
        return work()
    except ValueError as error:
        raise UsageError(str(error)) from None


def _ssh_name(name: str) -> str:
    if ":" in name and not ipv6(name):
        raise UsageError(
            f"'{name}' is no name of a host",
            hint="Join hosts by commas; a port goes into hosts.ini or ~/.ssh/config",
        )
    try:
        check_name(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if name.startswith("@") or name.endswith("@"):
        raise UsageError(f"'{name}' can't be the name of a host", hint="USER@HOST, or HOST alone")
    return name
