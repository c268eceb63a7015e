"""From what the files say to hosts: defaults < all < parent < child < host < ORCH_<KEY> < flag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orchestrator.inventory.beside import missed
from orchestrator.inventory.grammar import ALL, UNGROUPED, Book, Value, Variables, read
from orchestrator.inventory.host import Host, Settings
from orchestrator.inventory.nearest import nearest
from orchestrator.inventory.own_names import PREFIX, claim, holders
from orchestrator.inventory.settings import CONNECTION, SETTINGS, check_key, convert, slip
from orchestrator.inventory.source import Place
from orchestrator.inventory.tree import Tree

_UNREAD = {
    "ansible_password": "orch logs in by keys",
    "ansible_ssh_pass": "orch logs in by keys",
    "ansible_ssh_password": "orch logs in by keys",
    "ansible_become": "orch never becomes another user",
}
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_LOCAL = ("local", "ansible.builtin.local")


@dataclass(frozen=True)
class Layers:
    """What the files, the environment and the command line say together."""

    hosts: tuple[Host, ...]
    left_out: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...]
    common: Variables = field(default_factory=dict)
    above: Variables = field(default_factory=dict)

    def stranger(self, name: str) -> Host:
        """Make the host of an ssh name that no inventory has: `NAME` or `USER@NAME`."""
        return _host(name, {**self.common, **self.above}, (), None)


def lay(files: Sequence[Path], environ: Mapping[str, str], flags: Mapping[str, str]) -> Layers:
    """Read the files and lay everything over each other. Raises ConfigError with file:line."""
    book = read(files)
    told = claim(book, SETTINGS)
    tree = Tree(book)
    above = {**_from_environment(environ), **_from_flags(flags)}
    _check(book, above)
    common = book.groups[ALL].variables if ALL in book.groups else {}
    hosts, left_out = [], {}
    for entry in book.hosts.values():
        said = {**common, **tree.variables(entry.name), **entry.variables, **above}
        kind = said["ansible_connection"].text if "ansible_connection" in said else "ssh"
        groups = tuple(name for name in tree.groups_of(entry.name) if name != UNGROUPED)
        if kind in _BY_SSH + _LOCAL:
            hosts.append(_host(entry.name, said, groups, str(entry.place)))
        else:
            left_out[entry.name] = f"ansible_connection={kind}; orch reaches hosts by ssh or on this machine"
    warnings = (
        *_slips(environ),
        *book.conflicts,
        *told,
        *_unread(book, files),
        *_one_machine(hosts),
        *_left_out(left_out),
    )
    members = {name: found for name, found in tree.members().items() if name != UNGROUPED}
    return Layers(tuple(hosts), left_out, members, warnings, common, above)


def _from_environment(environ: Mapping[str, str]) -> Variables:
    found = {}
    for key in SETTINGS:
        name = f"ORCH_{key.upper()}"
        if environ.get(name):
            found[key] = _outside(name, environ[name])
    return found


_ALSO = ("inventory", "log_file")
"""What else is read of the environment by these names: ORCH_INVENTORY, ORCH_LOG_FILE."""


def _slips(environ: Mapping[str, str]) -> Iterable[str]:
    """Say which ORCH_<KEY> is nearly one that counts: it has no effect, and a team may have its own."""
    for name in sorted(environ):
        key = name.removeprefix("ORCH_").lower()
        if key == name.lower() or key in SETTINGS or key in _ALSO:
            continue
        meant = slip(key) or nearest(key, _ALSO, 0.8)
        if meant:
            yield f"{name} is no setting. Did you mean ORCH_{meant.upper()}?"


def _from_flags(flags: Mapping[str, str]) -> Variables:
    return {key: _outside(f"--{key.replace('_', '-')}", text) for key, text in flags.items()}


def _outside(name: str, text: str) -> Value:
    return Value(text, Place(name, text, Path()))


def _check(book: Book, above: Variables) -> None:
    """Check every key and every value, also of groups without hosts."""
    for variables in [*holders(book), above]:
        for key, value in variables.items():
            check_key(key, value)
            if value.text and (key in SETTINGS or key in CONNECTION):
                convert(key, value)


def _host(name: str, said: Variables, groups: tuple[str, ...], where: str | None) -> Host:
    settings, sources = _typed(said, {key: key for key in SETTINGS})
    reached, more = _typed(said, {key: field for key, (field, _) in CONNECTION.items()})
    address = str(reached.pop("address", name))
    if "@" in address:
        user, _, address = address.rpartition("@")
        reached.setdefault("user", user)
    if reached.get("connection") in _LOCAL:
        reached["connection"] = "local"
    else:
        reached.pop("connection", None)
    return Host(
        name=name,
        address=address,
        groups=groups,
        settings=replace(Settings(), **settings),
        sources=MappingProxyType({**sources, **more}),
        where=where,
        **reached,
    )


def _typed(said: Variables, fields: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Convert the known ones of `said`; an empty text means the default."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key, name in fields.items():
        if key in said and said[key].text and name not in values:
            values[name] = convert(key, said[key])
            sources[name] = str(said[key].place)
    return values, sources


def _unread(book: Book, files: Iterable[Path]) -> Iterable[str]:
    """Name, in a line each, variables that orch misses beside the files, and means that it does not have."""
    beside = missed(files, {*CONNECTION, *(PREFIX + key for key in SETTINGS)})
    if beside:
        yield (
            f"not used: {beside}: orch reads inventory files only. Write what it needs into hosts.ini, "
            "or into ~/.ssh/config"
        )
    found: dict[str, tuple[str, Value]] = {}
    for variables in holders(book):
        for key, value in variables.items():
            known = "ansible_become" if key.startswith("ansible_become") else key
            if known in _UNREAD:
                found.setdefault(known, (key, value))
    if found:
        names = ", ".join(f"{key} ({value.place})" for key, value in found.values())
        reasons = "; ".join(dict.fromkeys(_UNREAD[known] for known in found))
        yield f"not used of this inventory: {names}: {reasons}"


def _one_machine(hosts: Iterable[Host]) -> Iterable[str]:
    """Say which names stand for the same machine: a run would start there twice."""
    named: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        machine: tuple[str, ...] = (
            ("local",) if host.connection == "local" else (host.address, str(host.port or 22))
        )
        named.setdefault(machine, []).append(host.name)
    for machine, names in named.items():
        if len(names) > 1:
            place = "this machine" if machine == ("local",) else f"one machine ({':'.join(machine)})"
            yield f"{', '.join(names)} are {place}"


def _left_out(left_out: Mapping[str, str]) -> Iterable[str]:
    for why, number in Counter(left_out.values()).items():
        names = [name for name, reason in left_out.items() if reason == why]
        yield f"{', '.join(names[:3])}{', ...' if number > 3 else ''} left out: {why}"
