"""orch hosts and orch init."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.app import App
from orchestrator.cli.main import run
from orchestrator.errors import Unreachable
from orchestrator.hosts.base import Machine
from orchestrator.inventory import Host

LAB = """\
[gpus]
gpu01 ansible_host=10.0.0.1 ansible_user=ana ansible_port=2222
gpu[02:03]
here ansible_connection=local
[lab:children]
gpus
[gpus:vars]
shm_size = 16g
volumes = /data:/data:ro, ~/m:/m
env = WANDB_API_KEY=hunter2, B="two, \\"words\\""
jupyter = yes
ansible_ssh_common_args = -o 'ProxyCommand=nc %h %p'
https_proxy = http://ana:hunter2@proxy:3128
"""


def nowhere(host: Host) -> Machine:
    raise Unreachable("connection refused", where=host.name)


Orch = Callable[..., tuple[int, str, str]]


@pytest.fixture
def orch(tmp_path, monkeypatch, capsys) -> Orch:
    """Run a command line in an empty folder, with hosts that can't be reached."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def call(*words: str) -> tuple[int, str, str]:
        code = run(list(words), App(connect=nowhere, environ={}, cwd=tmp_path))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_the_table_is_aligned(orch, tmp_path):
    (tmp_path / "hosts.ini").write_text(LAB)
    code, out, err = orch("hosts")
    assert (code, err) == (0, "")
    assert out == (
        "NAME   ADDRESS        USER  GROUPS\n"
        "gpu01  10.0.0.1:2222  ana   gpus, lab\n"
        "gpu02  gpu02          -     gpus, lab\n"
        "gpu03  gpu03          -     gpus, lab\n"
        "here   this machine   -     gpus, lab\n"
    )


def test_verbose_shows_where_each_value_came_from_and_no_secret(orch, tmp_path):
    (tmp_path / "hosts.ini").write_text(LAB)
    code, out, _ = orch("hosts", "-v", "gpu01")
    assert code == 0
    lines = [line.split("   ") for line in out.splitlines()]
    assert lines[0] == ["gpu01", "10.0.0.1:2222", "in gpus, lab", "hosts.ini:2"]
    said = {line.split()[0]: line.split()[-1] for line in out.splitlines()[1:]}
    assert said["user"] == "hosts.ini:2"
    assert said["shm_size"] == "hosts.ini:8"
    assert "engine" not in said
    assert "hunter2" not in out
    assert 'env           WANDB_API_KEY=***, B="two, \\"words\\""' in out
    assert "http://ana:***@proxy:3128" in out
    assert "-o 'ProxyCommand=nc %h %p'" in out


def test_json_has_every_setting_with_its_source(orch, tmp_path):
    (tmp_path / "hosts.ini").write_text(LAB)
    code, out, _ = orch("hosts", "--json", "gpu02,nowhere.lab")
    assert code == 0
    known, strange = json.loads(out)["rows"]
    assert (known["host"], known["where"], known["groups"]) == ("gpu02", "hosts.ini:3", ["gpus", "lab"])
    assert known["settings"]["volumes"] == {"value": "/data:/data:ro, ~/m:/m", "source": "hosts.ini:9"}
    assert known["settings"]["jupyter"] == {"value": "yes", "source": "hosts.ini:11"}
    assert known["settings"]["engine"] == {"value": "docker", "source": "default"}
    assert known["settings"]["timeout"] == {"value": "10", "source": "default"}
    assert known["settings"]["port"] == {"value": "", "source": "default"}
    assert (strange["host"], strange["where"]) == ("nowhere.lab", None)


def test_a_bad_inventory_is_one_line_and_78(orch, tmp_path):
    (tmp_path / "hosts.ini").write_text("gpu01 shmsize=8g\n")
    code, out, err = orch("hosts")
    assert (code, out) == (78, "")
    assert err == "orch: hosts.ini:1: unknown key 'shmsize'. Did you mean shm_size?\n"


def test_no_inventory_is_one_line_with_the_next_step(orch):
    code, out, err = orch("hosts")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "orch init HOST" in err


def test_an_empty_inventory_is_told(orch, tmp_path):
    (tmp_path / "hosts.ini").write_text("# none yet\n")
    code, out, err = orch("hosts")
    assert (code, out, err) == (78, "", "orch: hosts.ini: no host in this inventory\n")


def test_warnings_are_talk(orch, tmp_path):
    (tmp_path / "hosts.ini").write_text("a ansible_host=x\nb ansible_host=x\n")
    code, out, err = orch("hosts")
    assert code == 0
    assert err == "warning: a, b are one machine (x:22)\n"
    assert "warning" not in out


def test_init_writes_both_files_and_proves_the_hosts(orch, tmp_path):
    code, out, err = orch("init", "gpu[01-02]", "ana@box.lab")
    assert code == 69
    assert "wrote   hosts.ini\nwrote   .orchignore\n" in err
    text = (tmp_path / "hosts.ini").read_text()
    assert "\ngpu01\ngpu02\nbox.lab ansible_user=ana\n" in text
    assert "connection refused" in out
    assert "gpu01,gpu02,box.lab" in out
    code, out, _ = orch("hosts")
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "gpu01", "gpu02", "box.lab"]


def test_init_again_changes_nothing_and_lays_out_what_is_new(orch, tmp_path):
    orch("init", "gpu01")
    (tmp_path / ".orchignore").write_text("mine\n")
    before = (tmp_path / "hosts.ini").read_bytes()
    code, out, err = orch("init", "gpu01", "ana@gpu02")
    assert code == 69
    assert "kept    hosts.ini, to which you may add:\n" in err
    assert out.startswith("gpu02 ansible_user=ana\n")
    assert (tmp_path / "hosts.ini").read_bytes() == before
    assert (tmp_path / ".orchignore").read_text() == "mine\n"


def test_init_without_hosts_offers_those_of_the_ssh_config(orch, tmp_path):
    config = tmp_path / "home/.ssh/config"
    config.parent.mkdir(parents=True)
    config.write_text("Host gpu1 gpu2\n  User ana\nHost *.lab !x\nhost box\nMatch all\n")
    code, _, err = orch("init")
    assert code == 0
    assert "next:   name your hosts in hosts.ini" in err
    assert "\n# gpu1\n# gpu2\n# box\n" in (tmp_path / "hosts.ini").read_text()
    assert orch("hosts")[0] == 78


@pytest.mark.parametrize("name", ["gpu*", "a/b", "--", "all", "gpu01:22"])
def test_init_refuses_what_is_no_name(orch, tmp_path, name):
    code, _, err = orch("init", "--", name) if name != "--" else orch("init", "--", "--")
    assert code == 2
    assert err.count("\n") == 1
    assert not (tmp_path / "hosts.ini").exists()


def test_init_where_nothing_can_be_written(orch, tmp_path, monkeypatch):
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    code, _, err = orch("init", "gpu01")
    assert code == 1
    assert err == f"orch: can't write {tmp_path}/hosts.ini: Permission denied\n"


def test_a_current_folder_that_is_gone_is_one_line(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["hosts"]) == 2
    assert capsys.readouterr().err == "orch: the current folder is gone. Change to one that is there\n"


def test_init_below_a_project_adds_no_second_inventory(orch, tmp_path, capsys):
    orch("init", "gpu01")
    below = tmp_path / "src"
    below.mkdir()
    app = App(connect=nowhere, environ={}, cwd=below)
    assert run(["init", "gpu02"], app) == 69
    said = capsys.readouterr()
    assert "kept    hosts.ini, to which you may add:" in said.err  # as seen from the process's folder
    assert said.out.startswith("gpu02\n")
    assert not (below / "hosts.ini").exists()
