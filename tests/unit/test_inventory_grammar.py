"""The grammar of hosts.ini: what is read, and what is refused with file and line."""

from __future__ import annotations

import pytest

from tests.unit.inventories import Desk, names


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("gpu[01:03]", ["gpu01", "gpu02", "gpu03"]),
        ("gpu[8:11]", ["gpu8", "gpu9", "gpu10", "gpu11"]),
        ("gpu[098:101]", ["gpu098", "gpu099", "gpu100", "gpu101"]),
        ("gpu[1:9:4].lab", ["gpu1.lab", "gpu5.lab", "gpu9.lab"]),
        ("gpu[:2]", ["gpu0", "gpu1", "gpu2"]),
        ("rack[a:c:2]", ["racka", "rackc"]),
        ("rack[a:b]-gpu[1:2]", ["racka-gpu1", "racka-gpu2", "rackb-gpu1", "rackb-gpu2"]),
        ("[1:2].fail", ["1.fail", "2.fail"]),
        ("server-[01:05:2].dc1", ["server-01.dc1", "server-03.dc1", "server-05.dc1"]),
    ],
)
def test_a_range_stands_for_its_names(desk, word, expected):
    assert names(desk.read(f"[g]\n{word}\n")) == expected


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("gpu[08:01]", "range [08:01]: runs backwards"),
        ("gpu[8:1]", "runs backwards"),
        ("rack[c:a]", "runs backwards"),
        ("gpu[0-3]", "a range is written with a colon here: gpu[0:3]"),
        ("gpu[1:9:0]", "the step must be a number above 0"),
        ("gpu[1:9:x]", "the step must be a number above 0"),
        ("gpu[1:999999999]", "more than 10000 names"),
        ("gpu[1:999][1:999]", "more than 10000 names"),
        ("gpu[01:003]", "the same number of digits"),
        ("gpu[5:007]", "the same number of digits"),
        ("gpu[1:]", "has no end"),
        ("gpu[1:a]", "neither of numbers nor of single letters"),
        ("gpu[1:-3]", "neither of numbers nor of single letters"),
        ("gpu*", "is a pattern"),
        ("all:", "is this YAML?"),
        ("gpu01:", "is this YAML?"),
        ("---", "can't be the name of a host"),
        ("-oProxyCommand=x", "can't be the name of a host"),
        ("../gpu", "can't be the name of a host"),
        ("gpu01,", "can't be the name of a host"),
        ("[::1]", "write ::1 or [::1]:22"),
        ("gpu01:0", "expected a port (1 to 65535), got '0'"),
        ("gpu01:70000", "expected a port (1 to 65535), got '70000'"),
        ("[2001:db8::1]:x", "expected a port"),
        ("gpu[:2]:22", "no port can stand behind such a name; write ansible_port=22"),
        ("gpu01.:22", "no port can stand behind such a name"),
        ("2001:db8::", "is this YAML?"),
        ("all", "it stands for hosts"),
        ("ungrouped", "it stands for hosts"),
    ],
)
def test_a_name_that_cant_be_is_refused_with_its_line(desk, word, complaint):
    error = desk.error(f"[g]\ngood\n{word} a=b\n")
    assert error.startswith("hosts.ini:3: ")
    assert complaint.replace("]: runs", "] runs") in error


@pytest.mark.parametrize(
    ("word", "name", "address", "port"),
    [
        ("gpu01:2222", "gpu01", "gpu01", 2222),
        ("10.0.0.4:22", "10.0.0.4", "10.0.0.4", 22),
        ("[10.0.0.4]:2222", "10.0.0.4", "10.0.0.4", 2222),
        ("2001:db8::1", "2001:db8::1", "2001:db8::1", None),
        ("[2001:db8::1]:22", "2001:db8::1", "2001:db8::1", 22),
        ("fe80::1%eth0", "fe80::1%eth0", "fe80::1%eth0", None),
        ("gpu01 ansible_host=[2001:db8::7]", "gpu01", "2001:db8::7", None),
        ("gpu01 ansible_host=10.0.0.4", "gpu01", "10.0.0.4", None),
        ("ana@gpu01", "ana@gpu01", "gpu01", None),
    ],
)
def test_names_addresses_and_ports(desk, word, name, address, port):
    host = desk.host(f"{word}\n")
    assert (host.name, host.address, host.port) == (name, address, port)


def test_the_variable_wins_over_the_port_behind_the_name_and_it_is_said(desk):
    inventory = desk.read("gpu01:2222 ansible_port=2200\n")
    assert inventory.hosts[0].port == 2200
    (warning,) = inventory.warnings
    assert warning.startswith("hosts.ini:1: port 2222")


def test_the_account_before_the_name_gives_way_to_ansible_user(desk):
    assert desk.host("ana@gpu01\n").user == "ana"
    assert desk.host("ana@gpu01 ansible_user=bob\n").user == "bob"


@pytest.mark.parametrize(
    ("line", "project"),
    [
        ("gpu01 project=mnist # the digits", "mnist"),
        ("gpu01 project='two words'", "two words"),
        ('gpu01 project="a # b"', "a # b"),
        ("gpu01 project=a=b", "a=b"),
        ("gpu01 project=a\\ b", "a b"),
        ("gpu01 project='\"deep\"'", "deep"),
        ("gpu01\tproject=mnist  ", "mnist"),
    ],
)
def test_host_lines_are_parted_as_a_shell_does(desk, line, project):
    assert desk.host(line).settings.project == project


@pytest.mark.parametrize(
    ("line", "project"),
    [
        ("project=a=b --c d", "a=b --c d"),
        ("project =   two words  ", "two words"),
        ("project='two words'", "two words"),
        ('project = "a # b"', "a # b"),
        ("project = it's", "it's"),
        ("project = a'b'c", "a'b'c"),
        ("project = a\\ b", "a\\ b"),
    ],
)
def test_in_vars_everything_behind_the_first_equals_is_the_value(desk, line, project):
    assert desk.host(f"gpu01\n[all:vars]\n{line}\n").settings.project == project


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("gpu01 user\n", 1, "expected KEY=VALUE behind the host, got 'user'"),
        ("gpu01 a = b\n", 1, "expected KEY=VALUE behind the host, got 'a'"),
        ("gpu01 project='x\n", 1, "a quote is not closed"),
        ("gpu01 ; note\n", 1, "expected KEY=VALUE"),
        ("gpu01 =x\n", 1, "expected KEY=VALUE"),
        ("[gpu servers]\n", 1, "invalid section '[gpu servers]'"),
        ("[]\n", 1, "invalid section"),
        ("[g:hosts:x]\n", 1, "invalid section"),
        ("[g:var]\n", 1, "section [g:var] has an unknown kind"),
        ("[1:2]\n", 1, "section [1:2] has an unknown kind"),
        ("a\n[all:vars]\nproject\n", 3, "expected KEY = VALUE, got 'project'"),
        ("a\n[all:vars]\nproject: x\n", 3, "expected KEY = VALUE"),
        ("[g]\na\n[g:vars]\nansible_group_priority=high\n", 4, "expected a whole number, got 'high'"),
        ("a\n[g:vars]\nx=1\n", 2, "[g:vars] is for a group that no file has"),
        ("[a:children]\nb\n", 2, "[a:children] names a group that no file has: b"),
        ("gpu01\n[a:children]\ngpu01\n", 3, "gpu01 is a host: it goes under [a]"),
        ("[a:children]\nb\n[b:vars]\nx=1\n", 2, "[a:children] names a group that no file has: b"),
        ("[a:children]\nall\n", 2, "all can't be below a group"),
        ("[a:children]\nb c\n[b]\n", 2, "expected the name of a group, got 'b c'"),
    ],
)
def test_what_ansible_refuses_is_refused(desk, text, line, complaint):
    error = desk.error(text)
    assert error.startswith(f"hosts.ini:{line}: ")
    assert complaint in error


def test_what_a_line_says_wrongly_is_not_repeated_whole(desk):
    assert "hunter2" not in desk.error("gpu01\n[all:vars]\nansible_password hunter2\n")


def test_children_may_be_declared_later_and_a_section_twice(desk):
    inventory = desk.read("[lab:children]\ngpus # both\n[gpus]\na\n[cpus]\nb\n[gpus]\nc\n")
    assert inventory.groups == {"lab": ("a", "c"), "gpus": ("a", "c"), "cpus": ("b",)}
    assert inventory.hosts[0].groups == ("lab", "gpus")


@pytest.mark.parametrize(
    ("text", "line", "circle"),
    [
        ("[a:children]\nb\n[b:children]\na\n", 4, "a > b > a"),
        ("[a:children]\na\n", 2, "a > a"),
        ("[a:children]\nb\n[b:children]\nc\n[c:children]\nb\n", 6, "b > c > b"),
    ],
)
def test_groups_in_a_circle_are_refused(desk, text, line, circle):
    assert desk.error(text) == f"hosts.ini:{line}: groups in a circle: {circle}"


def test_a_name_that_is_a_host_and_a_group_of_others_is_refused(desk):
    error = desk.error("[workers]\na\n[cluster]\nworkers\n")
    assert error.startswith("hosts.ini:4: 'workers' is named as a host and is a group (hosts.ini:1)")


def test_a_group_of_the_one_host_of_its_name_is_fine(desk):
    inventory = desk.read("[gpu01]\ngpu01\n[gpu01:vars]\nproject=x\n")
    assert inventory.hosts[0].settings.project == "x"


def test_a_host_in_two_groups_is_one_host_and_the_later_line_wins(desk):
    inventory = desk.read("[a]\nh ansible_port=2222 root=/x\n[b]\nh ansible_port=29007\n")
    (host,) = inventory.hosts
    assert (host.port, host.settings.root, host.groups) == (29007, "/x", ("a", "b"))
    assert inventory.warnings == ("hosts.ini:4: h: ansible_port=29007 replaces 2222 of hosts.ini:2",)


def test_comments_and_blank_lines(desk):
    text = "# top\n\n   ; indented\n[g] # the group\na # the host\n\t# more\n[g:vars]\n;x\nproject=p\n"
    inventory = desk.read(text)
    assert inventory.groups == {"g": ("a",)}
    assert inventory.hosts[0].settings.project == "p"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf[g]\r\na project=p\r\n",
        b"[g]\ra project=p",
        b"[g] \na project=p\t",
        b"# caf\xe9 in latin-1\n[g]\na project=p\n",
        b"[g]\n\xc2\xa0# caf\xe9\n\xc2\xa0\n\xc2\xa0a project=p\n\x0c\n",
    ],
)
def test_accidents_of_form_are_read(desk, data):
    inventory = desk.read(data)
    assert inventory.groups == {"g": ("a",)}
    assert inventory.hosts[0].settings.project == "p"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u00a0project=p\n", "hosts.ini:1: column 2: a no-break space"),
        ("a project=\u201cp\u201d\n", "hosts.ini:1: column 11: a curly quote"),
        ("a\n[all:vars]\nproject\u00a0= p\n", "hosts.ini:3: column 8: a no-break space"),
        ("a\n[all:vars]\nproject = \u201cp\u201d\n", "hosts.ini:3: column 11: a curly quote"),
        ("[g\u200b]\na\n", "hosts.ini:1: column 3: a zero-width space"),
        ("a b=\0\n", "hosts.ini:1: column 5: a NUL byte"),
        (b"a\nb project=caf\xe9\n", "hosts.ini:2: column 14: not UTF-8"),
        ("a\n".encode("utf-16"), "hosts.ini: this is UTF-16"),
        (b"#!/bin/sh\n", "hosts.ini: this is a program"),
    ],
)
def test_odd_characters_are_told_with_their_column(desk, text, expected):
    assert desk.error(text).startswith(expected)


def test_odd_characters_in_comments_and_in_a_teams_own_variables_are_nobodys_business(desk):
    text = "# it\u2019s\na note='a\u00a0b' # \u201cx\u201d\n[all:vars]\nmotd = salle\u00a0: \u201c2\u201d\n"
    assert names(desk.read(text)) == ["a"]


def test_a_missing_file_and_a_folder(desk):
    from orchestrator.errors import ConfigError
    from orchestrator.inventory import load

    with pytest.raises(ConfigError, match=r"gone\.ini: can't read the inventory: No such file"):
        load([desk.folder / "gone.ini"], environ={})
    with pytest.raises(ConfigError, match="this is a folder"):
        load([desk.folder], environ={})
