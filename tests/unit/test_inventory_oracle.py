"""Our reading of inventories against Ansible's own, on generated files.

Hosts, groups, variables and the lines they come from must be equal, both must refuse, or ours refuses by one
of the rules in TRAPS, where Ansible's answer is not what a person means.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from orchestrator.errors import ConfigError
from orchestrator.inventory.grammar import read
from orchestrator.inventory.names import hosts_of
from orchestrator.inventory.tree import Tree
from tests.unit.inventory_texts import INVENTORY, TAME

pytest.importorskip("ansible", reason="ansible-core, the oracle, is not installed")

os.environ.setdefault("ANSIBLE_DEPRECATION_WARNINGS", "0")  # read at the first import

EXAMPLES = int(os.environ.get("ORCH_TEST_EXAMPLES", "500"))

TRAPS = (
    "runs backwards",  # names no host at all
    "the same number of digits",  # [5:007] loses its zeros
    "neither of numbers nor of single letters",  # [ab:cd] is taken for [a:c]
    "the step must be",
    "stands for more than",
    "a range is written with a colon",  # gpu[0-3] is one host of that name
    "can't be the name of a host",
    "is a pattern",
    "is this YAML?",
    "named as a host and is a group",
    "can't be below a group",  # of [a:children] ungrouped, Ansible takes the hosts out of ungrouped
    "expected a port",  # above 65535
    "no port can stand behind",  # h[:2]:22 is h0:22, h1:22 and h2:22
    "expected KEY=VALUE behind the host",  # a variable without a name
    "expected KEY = VALUE",  # the same in :vars
    "expected a whole number",  # ansible_group_priority = 1.5 is 1
    "not UTF-8",  # read as half characters
    "Type a plain one",  # blanks and quotes that aren't plain are parts of names, and ends of lines
)


@dataclass(frozen=True)
class Read:
    """What a file says: hosts in order, groups with their hosts, variables by host, and the line of each."""

    hosts: list[str]
    groups: dict[str, set[str]]
    variables: dict[str, dict[str, object]]
    lines: dict[tuple[str, str], int]


def theirs(*paths: Path) -> Read | None:
    """Read files by Ansible, as with several -i; None when it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ansible.errors import AnsibleError
        from ansible.inventory.data import InventoryData
        from ansible.inventory.helpers import get_group_vars
        from ansible.parsing.dataloader import DataLoader
        from ansible.plugins.loader import inventory_loader

        data = InventoryData()
        try:
            for path in paths:
                inventory_loader.get("ini").parse(data, DataLoader(), str(path))
            data.reconcile_inventory()
        except AnsibleError:
            return None
    said = {name: {**get_group_vars(host.get_groups()), **host.vars} for name, host in data.hosts.items()}
    for variables in said.values():
        variables.pop("inventory_file", None), variables.pop("inventory_dir", None)
    groups = {name: set(hosts) for name, hosts in data.get_groups_dict().items()}
    lines = {(host, key): line for host in said for key, v in said[host].items() if (line := _line(v))}
    return Read(list(data.hosts), groups, said, lines)


def _line(value: object) -> int | None:
    """Return the line that Ansible remembers of a value; versions before 2.19 remember none."""
    with contextlib.suppress(ImportError):
        from ansible._internal._datatag._tags import Origin

        origin = Origin.get_tag(value)
        return origin.line_num if origin else None
    return None


def ours(*paths: Path) -> Read | ConfigError:
    """Read files ourselves; the error when we refuse."""
    try:
        book = read(paths)
        tree = Tree(book)
    except ConfigError as error:
        return error
    common = book.groups["all"].variables if "all" in book.groups else {}
    said = {name: {**common, **tree.variables(name), **e.variables} for name, e in book.hosts.items()}
    groups = {"all": set(book.hosts), **{name: set(hosts) for name, hosts in tree.members().items()}}
    texts: dict[str, dict[str, object]] = {n: {k: v.text for k, v in vs.items()} for n, vs in said.items()}
    lines = {(n, k): int(v.place.name.rpartition(":")[2]) for n, vs in said.items() for k, v in vs.items()}
    return Read(list(book.hosts), groups, texts, lines)


def same(ours: object, theirs: object) -> bool:
    """Whether our text is what Ansible read: the same text, or the text of the same number, list or bytes."""
    value = literal(str(ours))
    return ours == theirs or (not isinstance(value, str) and _plain(value) == _plain(theirs))


def literal(text: str) -> object:
    """Return the Python value that Ansible makes of a text, or the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text


def _plain(value: object) -> object:
    """Ansible makes lists of tuples and sets, and texts of bytes, of complex numbers and of `...`."""
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if value is ...:
        return "..."
    if isinstance(value, complex):
        return str(value)
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("oracle")


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 500
)
@given(INVENTORY)
@example(b"[a]\nh k='\"x\"'\n[b:children]\na\n[b:vars]\nk=2\nk2='y' # z\n")
@example(b"[a:children]\nb\n[c:children]\nb\n[b]\nh\n[a:vars]\nk=a\n[c:vars]\nk=c\n")
@example(b"[a:vars]\nk=1\n")
@example(b"[a:children]\nb\n[b:children]\na\n")
def test_a_generated_inventory_is_read_as_ansible_reads_it(folder, data):
    path = folder / "hosts.ini"
    path.write_bytes(data)
    expected, found = theirs(path), ours(path)
    if isinstance(found, ConfigError):
        assert expected is None or any(trap in str(found) for trap in TRAPS), f"only we refuse: {found}"
        return
    assert expected is not None, "only Ansible refuses"
    compare(found, expected, data)


@settings(
    max_examples=EXAMPLES // 5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=EXAMPLES <= 500,
)
@given(TAME, TAME)
def test_two_files_are_read_as_ansible_reads_two(folder, lower, upper):
    """Ansible refuses variables of a group that only the other file has; then there is nothing to compare."""
    paths = folder / "lower.ini", folder / "upper.ini"
    paths[0].write_bytes(lower)
    paths[1].write_bytes(upper)
    expected, found = theirs(*paths), ours(*paths)
    if expected is not None and not isinstance(found, ConfigError):
        expected.lines.clear()
        compare(found, expected, lower + b"\n" + upper)
    elif isinstance(found, ConfigError):
        assert expected is None or any(trap in str(found) for trap in TRAPS), f"only we refuse: {found}"


def compare(found: Read, expected: Read, data: bytes) -> None:
    """Compare all that was read."""
    assert found.hosts == expected.hosts
    for name in found.groups.keys() | expected.groups.keys():
        assert found.groups.get(name) == expected.groups.get(name), name
    for name in found.hosts:
        if name not in found.groups:  # else Ansible gives what a later line says to the group
            compare_host(name, found, expected, data.decode(errors="replace"))


def compare_host(name: str, found: Read, expected: Read, text: str) -> None:
    """Compare what a host has."""
    said, read_there = found.variables[name], expected.variables[name]
    said.pop("ansible_group_priority", None)  # a variable of a group, which Ansible keeps elsewhere
    if _named_twice(text, name):  # Ansible drops the port of a host that it knows already
        read_there["ansible_port"] = said.get("ansible_port")
        expected.lines.pop((name, "ansible_port"), None)
    read_there = {k: v for k, v in read_there.items() if v is not None or k != "ansible_port"}
    assert said.keys() == read_there.keys()
    for key, value in said.items():
        assert same(value, read_there[key]), (name, key, value, read_there[key])
        line = found.lines[name, key]
        if "\x0c" not in text:  # to Ansible a form feed ends a line, to editors not
            assert line == expected.lines.get((name, key), line), (name, key)


def _named_twice(text: str, name: str) -> bool:
    count = 0
    for line in text.splitlines():
        with contextlib.suppress(ValueError, IndexError):
            count += name in hosts_of(shlex.split(line.strip(), comments=True)[0])[0]
    return count > 1
