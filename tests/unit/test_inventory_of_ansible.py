"""An inventory that a team has for Ansible, with all that orch does without."""

from __future__ import annotations

import re
import shutil

import pytest

from orchestrator.errors import ConfigError
from orchestrator.hosts.ssh_config import resolve
from orchestrator.inventory import load
from tests.unit.inventories import Desk

INVENTORY = """\
# Managed by the platform team
[gpu_nodes]
gpu[01:02].lab.example ansible_host="{{ addresses[inventory_hostname] }}" rack=r1
gpu03.lab.example:2222   ansible_user=deploy rack=r2   # the new one

[gpu_nodes:vars]
ansible_python_interpreter=/usr/bin/python3
ansible_become=true
ansible_become_method=sudo
driver_version="535.183"
nccl_ifname={{ ansible_default_ipv4.interface }}

[storage]
nas01 ansible_connection=local

[production:children]
gpu_nodes
storage

[production:vars]
env = production
ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q jump@bastion.lab.example"'
ansible_ssh_extra_args=-o ServerAliveInterval=30

[all:vars]
ansible_user=ops
ansible_password={{ vault_ssh_password }}
http_port=8080
motd='Use it well; it # is shared'
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


@pytest.fixture
def project(desk):
    """The folders of an Ansible project around its inventory."""
    for name in ("group_vars/all.yml", "host_vars/gpu03.lab.example.yml", "roles/docker/tasks/main.yml"):
        desk.write("---\nansible_user: ana\n", f"inventories/{name}")
    return desk


def test_it_is_refused_with_the_line_of_a_template_in_an_address(project):
    assert project.error(INVENTORY) == (
        "hosts.ini:3: ansible_host: templates ({{ }}) are not evaluated here. Write the value itself"
    )


def test_it_serves_and_what_is_not_used_of_it_is_said_in_a_line_each(project):
    path = project.write(re.sub(" ansible_host=.*}}.", "", INVENTORY), "inventories/hosts.ini")
    inventory = load([path], environ={})
    at = "inventories/hosts.ini"
    assert [host.name for host in inventory.hosts][2:] == ["gpu03.lab.example", "nas01"]
    third = inventory.hosts[2]
    assert (third.user, third.port, third.groups) == ("deploy", 2222, ("gpu_nodes", "production"))
    assert third.common_args == ("-o", "ProxyCommand=ssh -W %h:%p -q jump@bastion.lab.example")
    assert third.extra_args == ("-o", "ServerAliveInterval=30")
    assert third.came_from("common_args") == f"{at}:22"
    assert dict(third.settings.env) == {}
    assert inventory.warnings == (
        f"{at}:21: env = production is taken for your own variable: orch's is NAME=VALUE by comma. "
        "A line orch_env = (empty, or with orch's) says so for good",
        "not used: ansible_user (inventories/group_vars/all.yml:2), "
        "ansible_user (inventories/host_vars/gpu03.lab.example.yml:2): orch reads inventory files only. "
        "Write what it needs into hosts.ini, or into ~/.ssh/config",
        f"not used of this inventory: ansible_become ({at}:8), ansible_password ({at}:27): "
        "orch never becomes another user; orch logs in by keys",
    )


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs the ssh program")
@pytest.mark.parametrize(
    "text",
    [
        """gpu01 ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q jump@bastion" -o Port=2022'\n""",
        """gpu01\n[all:vars]\n"""
        """ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q jump@bastion" -o Port=2022'\n""",
        """gpu01\n[all:vars]\nansible_ssh_common_args=-o ProxyCommand="ssh -W %h:%p -q jump@bastion"\n"""
        """ansible_ssh_extra_args = -o Port=2022\n""",
    ],
)
def test_arguments_of_ssh_arrive_there_as_they_are_quoted(desk, monkeypatch, text):
    monkeypatch.setenv("HOME", str(desk.folder))
    host = desk.host(text)
    route = resolve(host.address, args=(*host.common_args, *host.extra_args))
    assert (route.command, route.port) == ("ssh -W gpu01:2022 -q jump@bastion", 2022)


@pytest.mark.parametrize("env", ["production", "{'A': 'b'}", "production # one of two", "'two words'"])
def test_an_env_of_the_teams_own_is_passed_over(desk, env):
    inventory = desk.read(f"a\n[all:vars]\nenv = {env}\n")
    assert dict(inventory.hosts[0].settings.env) == {}
    assert inventory.hosts[0].came_from("env") == "default"
    assert len(inventory.warnings) == 1


def test_a_nearer_env_of_the_teams_own_takes_nothing_from_a_farther_one_of_orchs(desk):
    host = desk.host("[g]\na env=production\n[g:vars]\nenv = A=1\n")
    assert dict(host.settings.env) == {"A": "1"}


def test_orchs_key_with_its_prefix_leaves_the_plain_name_to_the_team(desk):
    inventory = desk.read(
        "[g]\na memory=lots\nb\n[all:vars]\nenv = production\nengine = v8\nmemory = huge\n"
        "orch_env = A=1\norch_engine =\n[g:vars]\norch_memory = 64g\n"
    )
    one, other = inventory.hosts
    assert inventory.warnings == ()
    for host in (one, other):
        assert dict(host.settings.env) == {"A": "1"}
        assert (host.settings.engine, host.settings.memory) == ("docker", "64g")
        assert host.came_from("memory") == "hosts.ini:11"


def test_the_prefix_in_one_file_holds_for_the_other(desk):
    host = desk.host("[all:vars]\norch_engine = venv\n", "a engine=v8\n")
    assert host.settings.engine == "venv"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "engine = v8",
            r"hosts\.ini:3: engine: 'v8' is not .* If engine is a variable of your own, orch_engine =",
        ),
        ("memory = lots", "If memory is a variable of your own, orch_memory = "),
        ("orch_memory = lots", "hosts.ini:3: memory: expected a size"),
        ("orch_shmsize = 1g", r"unknown key 'orch_shmsize'. Did you mean orch_shm_size\?"),
        ("ansible_user = !vault |", "ansible_user: encrypted by ansible-vault, which orch can't read"),
        ("ansible_port = $ANSIBLE_VAULT;1.1;AES256", "ansible_port: encrypted by ansible-vault"),
    ],
)
def test_a_key_of_orchs_that_is_none(desk, line, complaint):
    with pytest.raises(ConfigError, match=complaint):
        desk.read(f"a\n[all:vars]\n{line}\n")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("hosts.yml", "all:\n  hosts:\n    gpu01:\n", "YAML"),
        ("hosts", "---\n# lab\nall:\n  hosts:\n", "YAML"),
        ("hosts", "# lab\n\nall:\n  hosts:\n", "YAML"),
        ("hosts.json", '{"all": {"hosts": ["gpu01"]}}\n', "JSON"),
        ("hosts.json", "{\n}\n", "JSON"),
        ("ec2.py", "#!/usr/bin/env python3\nprint('{}')\n", "a program"),
        ("hosts", "$ANSIBLE_VAULT;1.1;AES256\n3334\n", "encrypted by ansible-vault"),
    ],
)
def test_an_inventory_in_another_form_is_named_with_what_to_do(desk, name, data, what):
    with pytest.raises(ConfigError) as caught:
        load([desk.write(data, name)], environ={})
    assert str(caught.value) == (
        f"{name}: this is {what}; orch reads inventories in the INI form. "
        f"Let Ansible name the hosts for a hosts.ini of orch's: ansible all -i {name} --list-hosts"
    )
    assert caught.value.exit_code == 78


def test_a_folder_of_inventories_and_a_list_of_hosts_for_one(desk):
    desk.write("a\n", "inventories/one.ini")
    with pytest.raises(ConfigError, match=r"inventories: this is a folder\. Name the inventory files in it"):
        load([desk.folder / "inventories"], environ={})
    with pytest.raises(
        ConfigError, match=r"gpu01,gpu02,: can't read .* without a file: --hosts gpu01,gpu02$"
    ):
        load([desk.folder / "gpu01,gpu02,"], environ={})
