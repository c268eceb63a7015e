"""The known keys: their types, slips in them, and what is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.inventory import Volume
from tests.unit.inventories import Desk

DIGEST = "sha256:" + "01" * 32


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ana")
    return Desk(tmp_path)


def setting(desk: Desk, key: str, text: str):
    return getattr(desk.host(f"gpu01\n[all:vars]\n{key} = {text}\n").settings, key)


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHJl ana@laptop"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("root", "/data/orch/", "/data/orch"),
        ("root", "~/orch", "~/orch"),
        ("engine", "venv", "venv"),
        ("engine_command", "sudo -n docker", ("sudo", "-n", "docker")),
        ("engine_command", '"/opt/my docker/docker" -H x', ("/opt/my docker/docker", "-H", "x")),
        ("image", f"registry.lab:5000/tf@{DIGEST}", f"registry.lab:5000/tf@{DIGEST}"),
        ("tensorflow", "2.9.3", "2.9.3"),
        (
            "requirements",
            "albumentations, transformers[torch,vision]>=4,<5,numpy>=1.20 , <1.24",
            ("albumentations", "transformers[torch,vision]>=4,<5", "numpy>=1.20,<1.24"),
        ),
        ("apt_packages", "libgl1,ffmpeg=7:4.2.7-0ubuntu0.1", ("libgl1", "ffmpeg=7:4.2.7-0ubuntu0.1")),
        ("jupyter", "Yes", True),
        ("jupyter", "off", False),
        ("gpus", "all", "all"),
        ("gpus", "4", "4"),
        ("gpus", "0, 2", "0,2"),
        ("gpus", "GPU-8a1b-22, MIG-77", "GPU-8a1b-22,MIG-77"),
        ("network", "host", "host"),
        ("cluster_address", "10.0.0.4", "10.0.0.4"),
        ("cluster_ports", "10000-10010", "10000-10010"),
        ("ssh_port", "auto", None),
        ("ssh_port", "2201", 2201),
        ("publish", "6006, 8888", ("6006", "8888")),
        (
            "volumes",
            '/data/sets:/sets:ro, ~/models:/models, "/a, b:/c:rw"',
            (Volume("/data/sets", "/sets", True), Volume("~/models", "/models"), Volume("/a, b", "/c")),
        ),
        ("shm_size", "16G", "16g"),
        ("shm_size", "1.5GiB", "1.5g"),
        ("memory", "512 mb", "512m"),
        ("memory", "1073741824", "1073741824"),
        ("cpus", "1.5", "1.5"),
        ("container_user", "root", "root"),
        ("env", 'A=1,B="two, words", C = x y ,D=\'"\',E=,F=a=b', {
            "A": "1", "B": "two, words", "C": "x y", "D": '"', "E": "", "F": "a=b",
        }),
        ("env", r'A="say \"hi\" \\ \n",B=it\'s', {"A": 'say "hi" \\ \\n', "B": "it\\'s"}),
        ("env", "A=5\" disk,B=6\" disk", {"A": '5" disk', "B": '6" disk'}),
        ("env", "A=it's,B=theirs'", {"A": "it's", "B": "theirs'"}),
        ("secret", "WANDB_API_KEY, HF_TOKEN", ("WANDB_API_KEY", "HF_TOKEN")),
        ("host_key_policy", "accept-new", "accept-new"),
        ("remote_path", "/usr/local/cuda/bin, ~/bin", ("/usr/local/cuda/bin", "~/bin")),
        ("parallel", "8", 8),
        ("timeout", "2.5", 2.5),
        ("http_proxy", "http://proxy.lab:3128", "http://proxy.lab:3128"),
        ("no_proxy", "localhost,.lab", "localhost,.lab"),
        ("pip_index", "https://pypi.lab/simple", "https://pypi.lab/simple"),
        ("image", "", None),
        ("shm_size", "", "8g"),
        ("shm_size", "'64m'", "64m"),
    ],
)  # fmt: skip
def test_a_value_gets_its_type(desk, key, text, value):
    assert setting(desk, key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "complaint"),
    [
        ("root", "orch", "expected an absolute path or one that begins with ~/, got 'orch'"),
        ("root", "/", "expected an absolute path"),
        ("root", "~", "expected an absolute path"),
        ("root", "~bob/orch", "expected an absolute path"),
        ("root", "/data/../etc", "expected a plain path"),
        ("engine", "singularity", "'singularity' is not supported; expected docker or podman or venv"),
        ("engine_command", '"docker', "a quote is not closed"),
        ("image", "tensor flow", "expected one word"),
        ("image", "--privileged", "expected one word"),
        ("tensorflow", "latest", "expected a version such as 2.9.3"),
        ("requirements", "-r x.txt", "'-r x.txt' is an option of pip"),
        ("requirements", "wandb transformers", "packages are parted by commas"),
        ("apt_packages", "lib gl1", "expected names of Debian packages"),
        ("jupyter", "maybe", "expected yes or no, got 'maybe'"),
        ("gpus", "0", "expected auto, all, none, a count"),
        ("gpus", "some", "expected auto, all, none, a count"),
        ("network", "none", "expected bridge or host"),
        ("cluster_ports", "10010-10000", "expected a span of ports"),
        ("cluster_ports", "10000", "expected a span of ports"),
        ("cluster_ports", "0-10", "expected a port"),
        ("ssh_port", "0", "expected a port (1 to 65535), got '0'"),
        ("publish", "6006:70000", "expected a port"),
        ("volumes", "/data", "expected SOURCE:TARGET"),
        ("volumes", "/data:/x:rx", "expected SOURCE:TARGET"),
        ("volumes", "data:/x", "expected an absolute path"),
        ("volumes", "/data:/", "expected SOURCE:TARGET"),
        ("volumes", "/a:/x,/b:/x/", "two volumes have the target /x"),
        ("shm_size", "8x", "expected a size such as 8g or 512m, got '8x'"),
        ("memory", "0", "expected a size"),
        ("memory", "-1g", "expected a size"),
        ("cpus", "many", "expected a number above 0"),
        ("container_user", "Ana Lopez", "expected the name of an account"),
        ("env", "A=1, B", "expected NAME=VALUE"),
        ("env", "1A=x", "expected NAME=VALUE"),
        ("env", "A=1,A=2", "A is given twice"),
        ("env", 'A="x', "a quote is not closed"),
        ("env", 'A="x"y', "a quote is not closed"),
        ("secret", "A=hunter2", "expected names of environment variables"),
        ("host_key_policy", "no", "expected ask or accept-new or strict"),
        ("transport", "telnet", "'telnet' is not supported; expected auto or fabric or openssh"),
        ("parallel", "0", "expected a number above 0"),
        ("timeout", "soon", "expected a number above 0"),
        ("pip_index", "pypi.lab", "expected an address that begins with http"),
        ("image", "{{ image }}", "templates ({{ }}) are not evaluated here"),
        ("shm_size", "8g # half", "a comment can't stand behind a value here"),
        ("notify", "mail", "notify is not supported by this version of orch"),
        ("image", "tf@sha256:12ab", "expected sha256: and 64 hex digits, got 'sha256:12ab'"),
        ("image", "sha256:12ab", "expected sha256: and 64 hex digits"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_with_line_and_key(desk, key, text, complaint):
    error = desk.error(f"gpu01\n[all:vars]\n{key} = {text}\n")
    assert error.startswith("hosts.ini:3: ")
    assert key in error
    assert complaint in error


def test_a_wrong_value_of_a_group_without_hosts_is_told_too(desk):
    assert desk.error("[g]\n[g:vars]\nssh_port=x\n").startswith("hosts.ini:3: ssh_port: expected a port")


def test_local_paths_start_from_the_file_they_stand_in(desk):
    text = (
        f"gpu01 ansible_ssh_private_key_file=keys/lab authorized_keys='keys/a.pub, {KEY},~/b.pub'\n"
        "[all:vars]\nrequirements=numpy,deep/req.txt\nstartup=/abs/start.sh\nenv_file=~/x.env\nca_bundle=ca.pem\n"
    )
    desk.write(text, "sub/hosts.ini")
    from orchestrator.inventory import load

    (host,) = load([Path("sub/hosts.ini")], environ={}).hosts
    sub = str(desk.folder / "sub")
    assert host.key == f"{sub}/keys/lab"
    assert host.settings.authorized_keys == (f"{sub}/keys/a.pub", KEY, "/home/ana/b.pub")
    assert host.settings.requirements == ("numpy", f"{sub}/deep/req.txt")
    assert host.settings.startup == "/abs/start.sh"
    assert host.settings.env_file == "/home/ana/x.env"
    assert host.settings.ca_bundle == f"{sub}/ca.pem"


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ("ansible_host=10.0.0.1", "address", "10.0.0.1"),
        ("ansible_ssh_host=10.0.0.1", "address", "10.0.0.1"),
        ("ansible_host=ana@10.0.0.1", "address", "10.0.0.1"),
        ("ansible_user=ana", "user", "ana"),
        ("ansible_ssh_user=ana", "user", "ana"),
        ("ansible_port=2222", "port", 2222),
        ("ansible_ssh_port=2222", "port", 2222),
        ("ansible_private_key_file=~/k", "key", "/home/ana/k"),
        ("ansible_connection=local", "connection", "local"),
        ("ansible_connection=paramiko", "connection", "ssh"),
        ("ansible_connection=smart", "connection", "ssh"),
        ("ansible_ssh_common_args='-o ProxyJump=bastion'", "common_args", ("-o", "ProxyJump=bastion")),
        (
            "ansible_ssh_extra_args='-o \"ProxyCommand=nc %h %p\" -4'",
            "extra_args",
            ("-o", "ProxyCommand=nc %h %p", "-4"),
        ),
    ],
)
def test_ansibles_connection_names(desk, said, field, value):
    assert getattr(desk.host(f"gpu01 {said}\n"), field) == value


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("ansible_port=x", "ansible_port: expected a port"),
        ("ansible_host=10.0.0.4:22", "a port goes into ansible_port"),
        ("ansible_host='10.0.0.4 x'", "expected a name or an address"),
        ("ansible_host=10.0.0.[1:3]", "a range in a value is not expanded"),
        ("ansible_user=-lroot", "expected one word"),
        ("ansible_user='{{ lookup(1) }}'", "templates ({{ }}) are not evaluated"),
        ('ansible_ssh_common_args="-o \'x"', "a quote is not closed"),
    ],
)
def test_wrong_connection_values(desk, said, complaint):
    error = desk.error(f"gpu01 {said}\n")
    assert error.startswith("hosts.ini:1: ")
    assert complaint in error


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("volume", "volumes"),
        ("shmsize", "shm_size"),
        ("shm-size", "shm_size"),
        ("egnine", "engine"),
        ("imgae", "image"),
        ("Image", "image"),
        ("gpu", "gpus"),
        ("sshport", "ssh_port"),
        ("time_out", "timeout"),
        ("ansible_usr", "ansible_user"),
        ("ansible_hsot", "ansible_host"),
        ("ansible_ssh_private_key", "ansible_ssh_private_key_file"),
    ],
)
def test_a_slip_in_a_key_is_refused_with_the_nearest(desk, key, meant):
    error = desk.error(f"gpu01\n\n[all:vars]\n{key}=1\n")
    assert error == f"hosts.ini:4: unknown key '{key}'. Did you mean {meant}?"


@pytest.mark.parametrize(
    "key",
    [
        "http_port", "https_port", "room", "rack", "dataset", "owner", "location", "ntp_server", "timezone",
        "maxRequestsPerChild", "user", "host", "port", "environment", "python_version", "node_id",
        "ansible_python_interpreter", "ansible_ssh_pipelining", "ansible_shell_type", "ansible_hostname",
        "ansible_sftp_extra_args", "ansible_scp_extra_args",
        "ansible_host_key_checking", "ansible_ssh_timeout",
    ],
)  # fmt: skip
def test_a_teams_own_variable_is_passed_over(desk, key):
    inventory = desk.read(f"gpu01\n[all:vars]\n{key}={{{{ anything }}}} # at all\n")
    assert inventory.warnings == ()
    assert inventory.hosts[0].sources == {}


def test_what_orch_does_without_is_said_once_and_no_password_is_shown(desk):
    inventory = desk.read(
        "a ansible_password=hunter2\nb ansible_password=hunter3\n"
        "[all:vars]\nansible_become=yes\nansible_become_user=root\nansible_ssh_pass=hunter4\n"
    )
    assert inventory.warnings == (
        "not used of this inventory: ansible_become (hosts.ini:4), "
        "ansible_ssh_pass (hosts.ini:6), ansible_password (hosts.ini:1): "
        "orch never becomes another user; orch logs in by keys",
    )


def test_the_variable_is_named_that_stands_in_the_line(desk):
    (warning,) = desk.read("a\n[all:vars]\nansible_become_password={{ x }}\n").warnings
    assert warning.startswith("not used of this inventory: ansible_become_password (hosts.ini:3): ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group_vars/all.yml", "---\nansible_user: ana\n"),
        ("group_vars/lab/login.yaml", "# who\nansible_user : ana\n"),
        ("host_vars/a", '\n"ansible_user": ana\n'),
        ("host_vars/a.json", '{\n  "ansible_user": "ana"}\n'),
        ("group_vars/all.yml", "---\norch_env: A=1\n"),
    ],
)
def test_what_orch_misses_beside_the_file_is_said_with_its_line(desk, name, text):
    desk.write(text, name)
    (warning,) = desk.read("a\n").warnings
    key = "orch_env" if "orch" in text else "ansible_user"
    assert warning == (
        f"not used: {key} ({name}:2): orch reads inventory files only. Write what it needs into hosts.ini, "
        "or into ~/.ssh/config"
    )


def test_of_many_that_it_misses_the_first_are_named(desk):
    for number in range(5):
        desk.write("ansible_host: 10.0.0.1\n", f"host_vars/gpu{number}.yml")
    (warning,) = desk.read("a\n").warnings
    assert "ansible_host (host_vars/gpu2.yml:1) and 2 more: " in warning


@pytest.mark.parametrize(
    "text",
    [
        "env: production\nntp_server: x\n",
        "users:\n  ansible_user: x\n",
        "# ansible_user: x\n",
        "$ANSIBLE_VAULT;1.1;AES256\n6162\n",
    ],
)
def test_no_word_is_lost_on_what_a_team_keeps_beside_the_file_for_itself(desk, text):
    desk.write(text, "group_vars/all.yml")
    assert desk.read("a\n").warnings == ()


def test_two_names_for_one_machine_are_said(desk):
    inventory = desk.read(
        "a ansible_host=10.0.0.1\nb ansible_host=10.0.0.1 ansible_port=22\n"
        "c ansible_host=10.0.0.1 ansible_port=2222\n"
        "d ansible_connection=local\ne ansible_connection=local\n"
    )
    assert inventory.warnings == ("a, b are one machine (10.0.0.1:22)", "d, e are this machine")


def test_hosts_that_are_no_ssh_hosts_are_left_out_and_said(desk):
    from orchestrator.errors import ConfigError

    inventory = desk.read("gpu01\n[win]\nw[1:5]\n[win:vars]\nansible_connection=winrm\n")
    assert [host.name for host in inventory.hosts] == ["gpu01"]
    (warning,) = inventory.warnings
    assert warning.startswith("w1, w2, w3, ... left out: ansible_connection=winrm")
    with pytest.raises(ConfigError, match="w2: ansible_connection=winrm"):
        inventory.select(["w2"])
