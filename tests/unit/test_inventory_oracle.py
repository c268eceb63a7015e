"""Our reading of inventories against Ansible's own, on generated files.

Hosts, groups and variables must be equal, both must refuse, or ours refuses by one of the rules in
TRAPS, where Ansible's answer is not what a person means.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shlex
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestrator.errors import ConfigError
from orchestrator.inventory.grammar import read
from orchestrator.inventory.names import hosts_of
from orchestrator.inventory.tree import Tree

pytest.importorskip("ansible", reason="ansible-core, the oracle, is not installed")

os.environ.setdefault("ANSIBLE_DEPRECATION_WARNINGS", "0")  # read at the first import

EXAMPLES = int(os.environ.get("ORCH_TEST_EXAMPLES", "100"))

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
    "expected KEY=VALUE behind the host",  # a variable without a name
    "expected KEY = VALUE",  # the same in :vars
)

GROUPS = st.sampled_from(["a", "b", "c", "d", "all", "ungrouped"])
NUMBER = st.sampled_from(["", "0", "1", "2", "3", "01", "03", "10", "a", "c", "B", "007"])
RANGE = st.builds(
    lambda begin, end, step: f"[{begin}:{end}{step}]",
    NUMBER,
    NUMBER,
    st.sampled_from(["", "", "", ":1", ":2", ":0"]),
)
GOOD_RANGE = st.sampled_from(["[1:3]", "[01:03]", "[08:11]", "[a:c]", "[1:9:4]", "[:2]", "[a:e:2]"])
# Ansible takes h[:2]:22 for hosts of the names h0:22, h1:22: nobody means that, so it isn't compared.
WITH_BEGIN = GOOD_RANGE.filter(lambda span: not span.startswith("[:"))
STEM = st.sampled_from(["h", "gpu", "x-1", "n.lab", "10.0.0.", "b", "é"])
PORT = st.sampled_from([":22", ":2222", ":0", ":70000", ":"])
HOST = st.one_of(
    STEM,
    st.builds("".join, st.lists(st.one_of(STEM, GOOD_RANGE), min_size=1, max_size=3)),
    st.builds("".join, st.tuples(STEM, RANGE)),
    st.builds("".join, st.tuples(STEM, WITH_BEGIN, PORT)),
    st.sampled_from(["::1", "[::1]:22", "2001:db8::1", "[2001:db8::7]", "[10.0.0.1]:22", "h:22", "gpu[0-3]"]),
)
KEY = st.sampled_from(["k", "k2", "some_key", "k3"])
VALUE = st.one_of(
    st.sampled_from(
        ["1", "010", "1.50", "yes", "True", "None", "'x y'", '"x # y"', "a=b", "[1, 2]", "{'a': 1}",
         "'a' 'b'", "x # y", "1 # y",
         "it's", "\\d", "'\\n'", "1,2", "{{ x }}", "(1)", "'''x'''", "b'x'", "u'x'", "r'\\n'", ""]
    ),
    st.text("ab1 '\"#=\\,[]{};:", max_size=8),
)  # fmt: skip
QUOTED = st.builds(lambda v: v.replace("'", "").join("''"), VALUE)
ASSIGNMENT = st.builds(lambda key, value: f"{key}={value}", KEY, st.one_of(QUOTED, QUOTED, VALUE))
COMMENT = st.sampled_from(["", "", "", " # note", " #", "  ; note", "\t"])
HOST_LINE = st.builds(
    lambda host, words, comment: " ".join([host, *words]) + comment,
    HOST,
    st.lists(ASSIGNMENT, max_size=2),
    COMMENT,
)
VARIABLE = st.builds(
    lambda key, middle, value: f"{key}{middle}{value}", KEY, st.sampled_from(["=", " = ", "= "]), VALUE
)
NOISE = st.sampled_from(["", "# c", " ; c", "[a b]", "nonsense here", "=x", "[a", "x]"])
CHILD = st.builds("".join, st.tuples(GROUPS, COMMENT))


def lines_of(kind: str) -> st.SearchStrategy[list[str]]:
    line = {"": HOST_LINE, ":children": CHILD, ":vars": VARIABLE, ":x": HOST_LINE}[kind]
    rare = st.integers(0, 30).flatmap(lambda n: NOISE if n == 0 else line)
    return st.lists(rare, max_size=3)


SECTION = st.tuples(GROUPS, st.sampled_from(["", "", ":children", ":vars", ":vars"])).flatmap(
    lambda head: lines_of(head[1]).map(lambda body: [f"[{head[0]}{head[1]}]", *body])
)
INVENTORY = st.builds(
    lambda top, sections: "\n".join(top + [line for section in sections for line in section]) + "\n",
    lines_of(""),
    st.lists(SECTION, max_size=6),
)


def literal(text: str) -> object:
    """Turn one of our values into what Ansible makes of its text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value


def same(ours: str, theirs: object) -> bool:
    """Whether our text is what Ansible read: the same text, or a text of the same number, list or bytes."""
    return ours == theirs or _plain(literal(ours)) == _plain(theirs)


def _plain(value: object) -> object:
    """Ansible makes lists of tuples and sets."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, set):
        return sorted(map(repr, value))
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value.decode() if isinstance(value, bytes) else value


def theirs(path: Path):
    """Read a file by Ansible: (hosts, groups, variables by host), or None when it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ansible.errors import AnsibleError
        from ansible.inventory.data import InventoryData
        from ansible.inventory.helpers import get_group_vars
        from ansible.parsing.dataloader import DataLoader
        from ansible.plugins.loader import inventory_loader

        data = InventoryData()
        try:
            inventory_loader.get("ini").parse(data, DataLoader(), str(path))
            data.reconcile_inventory()
        except AnsibleError:
            return None
        except Exception as error:  # a group below itself
            return None if "itself" in str(error) else error
        variables = {}
        for name, host in data.hosts.items():
            own = {**get_group_vars(host.get_groups()), **host.vars}
            variables[name] = {k: v for k, v in own.items() if k not in ("inventory_file", "inventory_dir")}
        groups = {name: set(hosts) for name, hosts in data.get_groups_dict().items()}
        return list(data.hosts), groups, variables


def ours(path: Path):
    """Read a file ourselves; the same three things, or the error."""
    try:
        book = read([path])
        tree = Tree(book)
    except ConfigError as error:
        return error
    common = book.groups["all"].variables if "all" in book.groups else {}
    variables = {
        name: {**common, **tree.variables(name), **entry.variables} for name, entry in book.hosts.items()
    }
    groups = {name: set(hosts) for name, hosts in tree.members().items()}
    return list(book.hosts), groups, {n: {k: v.text for k, v in vs.items()} for n, vs in variables.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("oracle")


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 100
)
@given(INVENTORY)
@example("[a]\nh k='\"x\"'\n[b:children]\na\n[b:vars]\nk=2\nk2='y' # z\n")
@example("[a:children]\nb\n[c:children]\nb\n[b]\nh\n[a:vars]\nk=a\n[c:vars]\nk=c\n")
@example("[a:vars]\nk=1\n")
@example("[a:children]\nb\n[b:children]\na\n")
def test_a_generated_inventory_is_read_as_ansible_reads_it(folder, text):
    path = folder / "hosts.ini"
    path.write_text(text, encoding="utf-8")
    expected = theirs(path)
    found = ours(path)
    if isinstance(found, ConfigError):
        assert expected is None or any(trap in str(found) for trap in TRAPS), f"only we refuse: {found}"
        return
    assert expected is not None, "only Ansible refuses"
    hosts, groups, variables = found
    assert hosts == expected[0]
    for name in groups:
        assert groups[name] == expected[1].get(name, set()), name
    for name, said in variables.items():
        read_there = expected[2][name]
        if name in groups:  # the one host of its group: Ansible gives what a later line says to the group
            continue
        if _named_twice(text, name):  # Ansible drops the port of a host that it knows already
            read_there["ansible_port"] = said.get("ansible_port")
        assert said.keys() == {
            key for key, value in read_there.items() if value is not None or key != "ansible_port"
        }
        for key, value in said.items():
            assert same(value, read_there[key]), (name, key, value, read_there[key])


def _named_twice(text: str, name: str) -> bool:
    count = 0
    for line in text.splitlines():
        with contextlib.suppress(ValueError, IndexError):
            count += name in hosts_of(shlex.split(line, comments=True)[0])[0]
    return count > 1
