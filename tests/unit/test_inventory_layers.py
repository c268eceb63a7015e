"""Which value wins, and where it came from."""

from __future__ import annotations

import os

import pytest

from orchestrator.errors import ConfigError
from orchestrator.inventory import config_folder, find_files, load
from tests.unit.inventories import Desk, names


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


ALL_LAYERS = """\
[parent:children]
child
[child]
h root=/host
[child:vars]
root=/child
[parent:vars]
root=/parent
[all:vars]
root=/all
"""


def test_each_layer_wins_over_the_one_before(desk):
    lines = ALL_LAYERS.splitlines()
    expected = [("/host", "4"), ("/child", "6"), ("/parent", "8"), ("/all", "10"), ("~/.orch", None)]
    for value, line in expected:
        host = desk.host("\n".join(lines))
        assert host.settings.root == value
        assert host.came_from("root") == (f"hosts.ini:{line}" if line else "default")
        lines = [said.removesuffix(f" root={value}").replace(f"root={value}", "") for said in lines]


def test_environment_and_flag_win_over_files(desk):
    host = desk.host(ALL_LAYERS, environ={"ORCH_ROOT": "/env"})
    assert (host.settings.root, host.came_from("root")) == ("/env", "ORCH_ROOT")
    host = desk.host(ALL_LAYERS, environ={"ORCH_ROOT": "/env"}, flags={"root": "/flag"})
    assert (host.settings.root, host.came_from("root")) == ("/flag", "--root")
    host = desk.host("h\n", flags={"ssh_port": "2300"})
    assert (host.settings.ssh_port, host.came_from("ssh_port")) == (2300, "--ssh-port")


def test_environment_and_flag_are_checked(desk):
    assert desk.error("h\n", environ={"ORCH_SHM_SIZE": "big"}).startswith(
        "ORCH_SHM_SIZE: shm_size: expected a size"
    )
    assert desk.error("h\n", flags={"ssh_port": "x"}).startswith("--ssh-port: ssh_port: expected a port")


def test_an_empty_variable_and_a_strange_one_of_the_environment_are_nothing(desk):
    host = desk.host("h root=/x\n", environ={"ORCH_ROOT": "", "ORCH_RUN_ID": "1", "ORCH_INVENTORY": "y"})
    assert host.settings.root == "/x"


def test_of_two_parents_the_longer_way_down_wins_then_priority_then_the_name(desk):
    text = "[z]\nh\n[a]\nh\n[a:vars]\nroot=/a\n[z:vars]\nroot=/z\n"
    assert desk.host(text).settings.root == "/z"
    assert desk.host(text + "[a:vars]\nansible_group_priority=10\n").settings.root == "/a"
    assert desk.host(text + "[z:vars]\nansible_group_priority=-1\n").settings.root == "/a"
    assert desk.host(text + "[top:children]\na\n").settings.root == "/a"


def test_a_file_is_laid_over_the_one_before(desk):
    host = desk.host("h root=/user project=mine person=ana\n", "h root=/project\n[all:vars]\nproject=all\n")
    assert host.settings.root == "/project"
    assert host.came_from("root") == "1.ini:1"
    assert host.settings.project == "mine"  # a host's own line is nearer than the other file's [all:vars]
    assert host.settings.person == "ana"
    assert host.where == "hosts.ini:1"


def test_a_layer_over_another_is_no_conflict(desk):
    inventory = desk.read("h ansible_port=22\n", "h ansible_port=2222\n")
    assert inventory.hosts[0].port == 2222
    assert inventory.warnings == ()


def test_a_group_of_one_file_serves_the_other(desk):
    inventory = desk.read("[gpus]\na\n", "[lab:children]\ngpus\n[gpus:vars]\nroot=/x\n")
    assert inventory.groups["lab"] == ("a",)
    assert inventory.hosts[0].settings.root == "/x"


def test_connection_values_have_sources_too(desk):
    host = desk.host("h:2222\n[all:vars]\nansible_user=ana\n")
    assert (host.came_from("port"), host.came_from("user"), host.came_from("address")) == (
        "hosts.ini:1",
        "hosts.ini:3",
        "default",
    )


def test_the_shown_path_is_short_where_it_can_be(desk, monkeypatch):
    path = desk.write("h root=/x\n", "deep/hosts.ini")
    monkeypatch.setenv("HOME", str(desk.folder))
    assert load([path], environ={}).hosts[0].where == "deep/hosts.ini:1"
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/nowhere")
    assert load([path], environ={}).hosts[0].where == f"{path}:1".removeprefix("/")
    monkeypatch.chdir("/usr")
    assert load([path], environ={}).hosts[0].where == f"{path}:1"
    monkeypatch.setenv("HOME", str(desk.folder))
    assert load([path], environ={}).hosts[0].where == "~/deep/hosts.ini:1"


def test_files_are_found_upwards_over_the_users_own(desk):
    environ = {"XDG_CONFIG_HOME": str(desk.folder / "config")}
    below = desk.folder / "project/src/deep"
    below.mkdir(parents=True)
    assert find_files(below, environ) == []
    project = desk.write("b\n", "project/hosts.ini")
    assert find_files(below, environ) == [project]
    own = desk.write("a\n", "config/orch/hosts.ini")
    assert find_files(below, environ) == [own, project]
    assert find_files(own.parent, environ) == [own]
    assert names(load(find_files(below, environ), environ={})) == ["a", "b"]


def test_named_files_are_all_there_is(desk):
    desk.write("a\n")
    environ = {"ORCH_INVENTORY": "x.ini:/y.ini", "XDG_CONFIG_HOME": str(desk.folder)}
    files = find_files(desk.folder, environ)
    assert [str(f) for f in files] == [f"{desk.folder}/x.ini", "/y.ini"]
    with pytest.raises(ConfigError, match=r"x\.ini: can't read the inventory"):
        load(files, environ={})


def test_the_config_folder_without_xdg_is_in_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ana")
    assert str(config_folder({})) == "/home/ana/.config/orch"
    assert str(config_folder({"XDG_CONFIG_HOME": "relative"})) == "/home/ana/.config/orch"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a file somebody else's")
def test_a_file_planted_for_others_is_not_read(desk):
    path = desk.write("a\n", "open/hosts.ini")
    path.parent.chmod(0o1777)
    below = path.parent / "mine"
    below.mkdir()
    assert find_files(below, {"XDG_CONFIG_HOME": "/nowhere"}) == [path]
    os.chown(path, 12345, 12345)
    with pytest.raises(ConfigError, match="somebody else's"):
        find_files(below, {"XDG_CONFIG_HOME": "/nowhere"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ORCH_IMAGEE", "ORCH_IMAGE"), ("ORCH_SHMSIZE", "ORCH_SHM_SIZE"), ("ORCH_INVENTRY", "ORCH_INVENTORY")],
)
def test_a_slip_in_the_environment_is_told(name: str, meant: str) -> None:
    found = load([], environ={name: "x"})
    assert found.warnings == (f"{name} is no setting. Did you mean {meant}?",)


def test_what_else_is_in_the_environment_is_nobodys_slip() -> None:
    ours = ("ORCH_RUN_ID", "ORCH_RUN_DIR", "ORCH_PERSON", "ORCH_INVENTORY", "ORCH_LOG_FILE", "ORCH_PROGRESS")
    teams = ("ORCH_API_TOKEN", "ORCHESTRA", "IMAGEE")
    assert load([], environ=dict.fromkeys((*ours, *teams), "x")).warnings == ()
