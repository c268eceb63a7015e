"""Ansible's INI grammar: files to groups, hosts and their variables, each with its place.

Several files are read one after the other into one `Book`, as Ansible does with several `-i`.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.inventory.names import hosts_of
from orchestrator.inventory.source import Place, lines

ALL, UNGROUPED = "all", "ungrouped"
PRIORITY = "ansible_group_priority"

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_CONNECTION = ("ansible_host", "ansible_port", "ansible_user", "ansible_connection")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_GROUP_NAME = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")


@dataclass(frozen=True)
class Value:
    """The text of a value and where it stands. `commented`: a `#` in it may be meant as a comment."""

    text: str
    place: Place
    commented: bool = False


Variables = dict[str, Value]


@dataclass
class Group:
    """A group as the files name it. `declared`: by a section of hosts or children, not by :vars alone."""

    name: str
    place: Place
    declared: bool = False
    hosts: dict[str, Place] = field(default_factory=dict)
    children: dict[str, Place] = field(default_factory=dict)
    variables: Variables = field(default_factory=dict)


@dataclass
class Entry:
    """A host as the files name it: where it stands first, and what its own lines say."""

    name: str
    place: Place
    variables: Variables = field(default_factory=dict)


@dataclass
class Book:
    """All that the files say."""

    groups: dict[str, Group] = field(default_factory=dict)
    hosts: dict[str, Entry] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def group(self, name: str, place: Place) -> Group:
        """Return the group of that name, made when it is new."""
        return self.groups.setdefault(name, Group(name, place))


def read(files: Iterable[Path]) -> Book:
    """Read inventory files in their order. Raises ConfigError with file and line for what can't be read."""
    book = Book()
    for path in files:
        _read(path, book)
    for group in book.groups.values():
        _check_group(group, book)
    return book


def _read(path: Path, book: Book) -> None:
    group, kind = None, "hosts"
    for place, line in lines(path):
        section = _SECTION.fullmatch(line)
        if section:
            group, kind = _open(section, place, book)
        elif line.startswith("[") and line.endswith("]"):
            raise place.error(
                f"invalid section '{line}'", "A section is [name], [name:children] or [name:vars]"
            )
        elif kind == "vars":
            _variable(group or book.group(ALL, place), place, line)
        elif kind == "children":
            _child(group or book.group(ALL, place), place, line)
        else:
            _host_line(group or book.group(UNGROUPED, place), place, line, book)


def _open(section: re.Match[str], place: Place, book: Book) -> tuple[Group, str]:
    place.refuse_odd(section.group(1))
    name, kind = section.group(1), section.group(2) or "hosts"
    if kind not in ("hosts", "children", "vars"):
        raise place.error(f"section [{name}:{kind}] has an unknown kind", "Known are :children and :vars")
    group = book.group(name, place)
    group.declared |= kind != "vars"
    return group, kind


def _variable(group: Group, place: Place, line: str) -> None:
    key, equals, value = line.partition("=")
    if not equals or not key.strip():
        raise place.error(f"expected KEY = VALUE, got '{line.split(maxsplit=1)[0]}'")
    place.refuse_odd(key)
    said = Value(
        evaluated(value.strip()), place, commented=re.search(r"\s#", _QUOTED.sub("", value)) is not None
    )
    if key.strip() == PRIORITY and not _WHOLE.fullmatch(said.text):
        raise place.error(f"{PRIORITY}: expected a whole number, got '{said.text}'")
    group.variables[key.strip()] = said


def _child(group: Group, place: Place, line: str) -> None:
    match = _GROUP_NAME.fullmatch(line)
    if not match:
        raise place.error(f"expected the name of a group, got '{line}'")
    place.refuse_odd(match.group(1))
    group.children.setdefault(match.group(1), place)


def _host_line(group: Group, place: Place, line: str, book: Book) -> None:
    place.refuse_odd(_bare(line))
    try:
        words = shlex.split(line, comments=True)
        names, port = hosts_of(words[0])
    except ValueError as error:
        raise place.error(str(error).replace("No closing quotation", "a quote is not closed")) from None
    said = dict(_assignment(word, place) for word in words[1:])
    if port is not None:
        given = said.setdefault("ansible_port", Value(str(port), place))
        if given.text != str(port):
            book.conflicts.append(
                f"{place}: port {port} behind the name gives way to ansible_port={given.text}"
            )
    for name in names:
        group.hosts.setdefault(name, place)
        _add(book.hosts.setdefault(name, Entry(name, place)), said, book)


def _bare(line: str) -> str:
    """Return what of a host line stands outside quotes and before a comment."""
    return _QUOTED.sub("", line).partition("#")[0]


def _assignment(word: str, place: Place) -> tuple[str, Value]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise place.error(
            f"expected KEY=VALUE behind the host, got '{word}'",
            "No blanks around =, quotes round a value with blanks",
        )
    return key, Value(evaluated(value), place)


def _add(entry: Entry, said: Variables, book: Book) -> None:
    for key, value in said.items():
        before = entry.variables.get(key)
        if before and before.text != value.text and key in _CONNECTION and _same_file(before, value):
            book.conflicts.append(
                f"{value.place}: {entry.name}: {key}={value.text} replaces {before.text} of {before.place}"
            )
        entry.variables[key] = value


def _same_file(one: Value, other: Value) -> bool:
    return one.place.name.rpartition(":")[0] == other.place.name.rpartition(":")[0]


def evaluated(text: str) -> str:
    """Return a value as Ansible takes it: one that is a quoted Python string is what stands in the quotes."""
    if text[:1] not in ("'", '"') and text[1:2] not in ("'", '"'):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a Windows path
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, str) else text


def _check_group(group: Group, book: Book) -> None:
    """Refuse what Ansible refuses, and a name that means both a host and a group of others."""
    if not group.declared and group.name not in (ALL, UNGROUPED):
        raise group.place.error(f"[{group.name}:vars] is for a group that no file has")
    if group.name in book.hosts and (list(group.hosts) != [group.name] or group.children):
        place = book.hosts[group.name].place
        raise place.error(
            f"'{group.name}' is named as a host and is a group ({group.place})", "Rename one of them"
        )
    for child, place in group.children.items():
        known = book.groups.get(child)
        if child in (ALL, UNGROUPED):
            raise place.error(f"{child} can't be below a group")
        if known and known.declared:
            continue
        hint = f"{child} is a host: it goes under [{group.name}]" if child in book.hosts else None
        raise place.error(f"[{group.name}:children] names a group that no file has: {child}", hint)
