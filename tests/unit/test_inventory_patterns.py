"""How people name hosts on the command line."""

from __future__ import annotations

import pytest

from orchestrator.errors import ConfigError, OrchError, UsageError
from orchestrator.inventory import load
from tests.unit.inventories import Desk

LAB = """\
login
[gpus]
gpu[01:05]
[old]
box[1:2].lab
[lab:children]
gpus
old
[gone]
[all:vars]
root=/lab
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


@pytest.fixture
def lab(desk):
    return desk.read(LAB)


def chosen(inventory, *patterns, exclude=()):
    selection = inventory.select(patterns, exclude)
    return [host.name for host in selection.hosts], selection.by_name


EVERYBODY = ["login", "gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "box1.lab", "box2.lab"]


@pytest.mark.parametrize(
    ("patterns", "hosts", "by_name"),
    [
        (["gpu02"], ["gpu02"], True),
        (["gpu03,gpu01"], ["gpu03", "gpu01"], True),
        (["gpu03", " gpu01 , gpu03,"], ["gpu03", "gpu01"], True),
        (["old"], ["box1.lab", "box2.lab"], False),
        (["gpu01,old"], ["gpu01", "box1.lab", "box2.lab"], False),
        (["gpu[02-04]"], ["gpu02", "gpu03", "gpu04"], False),
        (["gpu[02:04]"], ["gpu02", "gpu03", "gpu04"], False),
        (["gpu[01:05:2]"], ["gpu01", "gpu03", "gpu05"], False),
        (["gpu[01,04-05]"], ["gpu01", "gpu04", "gpu05"], False),
        (["gpu02..04"], ["gpu02", "gpu03", "gpu04"], False),
        (["gpu02..gpu04"], ["gpu02", "gpu03", "gpu04"], False),
        (["box1..2.lab"], ["box1.lab", "box2.lab"], False),
        (["gpu*"], ["gpu01", "gpu02", "gpu03", "gpu04", "gpu05"], False),
        (["*.lab"], ["box1.lab", "box2.lab"], False),
        (["gpu?1"], ["gpu01"], False),
        (["g*s"], ["gpu01", "gpu02", "gpu03", "gpu04", "gpu05"], False),
        (["gpu0[1-2]*"], ["gpu01", "gpu02"], False),
        (["all"], EVERYBODY, False),
        ([], EVERYBODY, False),
        (["ungrouped"], ["login"], False),
        (["lab,!gpus"], ["box1.lab", "box2.lab"], False),
        (["!lab"], ["login"], False),
        (["gpu01,gpu02,!gpu01"], ["gpu02"], True),
        (["lab:!gpus"], ["box1.lab", "box2.lab"], False),
        (["lab:&old"], ["box1.lab", "box2.lab"], False),
        (["lab,&gpu0[1-2]*,!gpu01"], ["gpu02"], False),
        (["gpu01,login", "&lab"], ["gpu01"], False),
        (["&old"], ["box1.lab", "box2.lab"], False),
    ],
)
def test_patterns(lab, patterns, hosts, by_name):
    assert chosen(lab, *patterns) == (hosts, by_name)


def test_exclusion(lab):
    assert chosen(lab, "gpus", exclude=["gpu01..03,gpu05"])[0] == ["gpu04"]
    assert chosen(lab, exclude=["lab"])[0] == ["login"]
    assert chosen(lab, "gpu01", exclude=["gpu02"])[0] == ["gpu01"]


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("gpu07", "no host gpu07 in hosts.ini. Did you mean gpu0"),
        ("gpsu", "no host gpsu in hosts.ini. Did you mean gpus?"),
        ("gpu[04-07]", "no host gpu06 (gpu[04-07]) in hosts.ini"),
        ("gpu04..07", "no host gpu06 (gpu04..07) in hosts.ini"),
        ("node[1-2]", "no host node1 (node[1-2]) in hosts.ini"),
        ("cpu*", "'cpu*' matches no host in hosts.ini"),
        ("gone", "'gone' matches no host in hosts.ini"),
        ("gpu[04-01]", "range [04:01] runs backwards"),
        ("gpu04..01", "range [04:01] runs backwards"),
        ("gpu[01-4]", "the same number of digits"),
        ("login:2222", "Join hosts by commas"),
        ("", "'' names no host. Is a variable of the shell empty?"),
        (" , ", "' , ' names no host"),
        ("!", "'!' names no host"),
        ("a/b", "'a/b' can't be the name of a host"),
        ("gpus[0]", "'gpus[0]': no positions in a group here. Globs and ranges of names: gpu*, gpu[01-04]"),
        ("gpus[0:2]", "'gpus[0:2]': no positions in a group here"),
        ("gpus[-1]", "'gpus[-1]': no positions in a group here"),
        ("@retry", "'@retry' can't be the name of a host. USER@HOST, or HOST alone"),
        ("ana@", "'ana@' can't be the name of a host. USER@HOST, or HOST alone"),
        ("-F/tmp/x", "can't be the name of a host"),
        ("all,!all", "no host is left of all without all"),
        ("gpus:&old", "no host is left of gpus,&old"),
        ("gpus:&odl", "no host odl in hosts.ini. Did you mean old?"),
        ("gpus:old", "Join hosts by commas"),
        ("~gpu.*", "'~gpu.*': no regular expressions here. Globs and ranges"),
        ("all,!cpu*", "'cpu*' matches no host"),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error(lab, pattern, complaint):
    with pytest.raises(UsageError) as caught:
        lab.select([pattern])
    assert complaint in str(caught.value)
    assert caught.value.exit_code == 2


def test_strangers_can_be_left_out_of_strangers(lab):
    assert chosen(lab, "one.example,two.example,!one.example") == (["two.example"], True)
    with pytest.raises(UsageError, match=r"no host one\.example in hosts\.ini"):
        lab.select(["all"], ["one.example"])


def test_an_exclusion_that_matches_nothing_is_an_error(lab):
    with pytest.raises(UsageError, match="no host gpu07"):
        lab.select(["all"], ["gpu07"])


def test_a_name_in_no_inventory_is_for_ssh_and_has_what_holds_for_all(lab):
    (host,) = lab.select(["mars"]).hosts
    assert (host.name, host.address, host.groups, host.where) == ("mars", "mars", (), None)
    assert (host.settings.root, host.came_from("root")) == ("/lab", "hosts.ini:11")
    (host,) = lab.select(["ana@10.1.2.3"]).hosts
    assert (host.name, host.address, host.user) == ("ana@10.1.2.3", "10.1.2.3", "ana")


def test_without_any_file_names_and_ranges_are_for_ssh():
    empty = load([], environ={"ORCH_ROOT": "/env"})
    assert chosen(empty, "gpu1", "gpu2") == (["gpu1", "gpu2"], True)
    assert chosen(empty, "gpu[08-10]") == (["gpu08", "gpu09", "gpu10"], False)
    assert chosen(empty, "2001:db8::1") == (["2001:db8::1"], True)
    assert empty.select(["gpu1"]).hosts[0].settings.root == "/env"
    with pytest.raises(UsageError, match="there is no hosts"):
        empty.select(["all"])
    with pytest.raises(UsageError, match="there is no hosts"):
        empty.select(["gpu*"])


@pytest.mark.parametrize("text", ["", "# nothing\n", "[gpus]\n", "[all:vars]\nroot=/x\n"])
def test_all_of_an_empty_inventory_is_an_error_that_names_the_file(desk, text):
    inventory = desk.read(text)
    with pytest.raises(ConfigError) as caught:
        inventory.select([])
    assert str(caught.value) == "hosts.ini: no host in this inventory"


def test_a_host_of_the_name_of_its_group_is_asked_for_by_name(desk):
    inventory = desk.read("[gpu01]\ngpu01\n")
    assert chosen(inventory, "gpu01") == (["gpu01"], True)


def test_no_pattern_makes_a_traceback(lab):
    """Whatever is typed is chosen or refused in one line."""
    odd = "[ ] [] [-] gpu[ gpu[a- gpu[1-2-3-4] .. 1..2 gpu.. ! , *[ [,] gpu[1,2 a[1-2][ \0 é gpu1..99999999"
    for pattern in [*odd.split(), "gpu[99999999-99999999999]", " ", "gpu[1 - 2]"]:
        assert outcome(lab, pattern), pattern


def outcome(inventory, pattern: str) -> bool:
    """Tell whether a pattern chooses hosts, or is refused in one line."""
    try:
        return bool(inventory.select([pattern]).hosts)
    except OrchError as error:
        return "\n" not in str(error)


PATTERNS = [
    "all", "*", "lab", "gpu*", "gpu0?", "old,gpu01", "lab:!gpus", "lab:&old", "all:!gpu01:!login",
    "lab,&gpus,!gpu02", "ungrouped", "!lab", "gpu01,gpu02,!gpu01", "*.lab", "g*s",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_it_means_to_ansible(lab, desk, pattern):
    pytest.importorskip("ansible", reason="ansible-core, the oracle, is not installed")
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader

    manager = InventoryManager(DataLoader(), sources=[str(desk.folder / "hosts.ini")])
    theirs = {host.name for host in manager.list_hosts(pattern)}
    assert set(chosen(lab, pattern)[0]) == theirs


def test_a_range_of_names_may_begin_like_a_group(desk):
    inventory = desk.read("[gpu]\ngpu0\ngpu1\n")
    assert chosen(inventory, "gpu[0:1]")[0] == ["gpu0", "gpu1"]
