"""What `ssh -G` says, and what is done where it leaves something to expand, or is not there."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.hosts import ssh_config
from orchestrator.hosts.ssh_config import parse, resolve, route
from orchestrator.hosts.steps import _split

DUMP = """\
host gpu01
user ana
hostname gpu01.lab
port 2222
identitiesonly yes
stricthostkeychecking accept-new
hashknownhosts yes
identityfile ~/.ssh/id_ed25519
identityfile /keys/%r at %n
identityagent none
hostkeyalias gpu
proxyjump ana@bastion:22,inner
globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2
userknownhostsfile /k/%h /k/b
"""

needs_ssh = pytest.mark.skipif(not shutil.which("ssh"), reason="the ssh program is not here")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def config(home: Path, text: str) -> None:
    (home / ".ssh" / "config").write_text(text)


def test_every_value_finds_its_place(home: Path) -> None:
    found = route("gpu01", parse(DUMP))
    assert (found.address, found.port, found.user, found.key_alias) == ("gpu01.lab", 2222, "ana", "gpu")
    assert found.identity_files == (f"{home}/.ssh/id_ed25519", "/keys/ana at gpu01")
    assert found.identities_only
    assert found.agent is None
    assert found.jump == "ana@bastion:22,inner"
    assert found.user_known_hosts == ("/k/gpu01.lab", "/k/b")
    assert found.global_known_hosts == ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
    assert (found.strict, found.hash_names) == ("accept-new", True)


def test_the_inventory_wins(home: Path) -> None:
    found = route("gpu01", parse(DUMP), user="bob", port=22)
    assert (found.user, found.port) == ("bob", 22)
    assert found.identity_files[1] == "/keys/bob at gpu01"


def test_tokens(home: Path) -> None:
    text = "hostname h\nport 7\nuser r\nproxycommand nc %h %p %n %r %u %d %i %% %k %z\n"
    me = getpass.getuser()
    assert route("n", parse(text)).command == f"nc h 7 n r {me} {home} {os.getuid()} % h %z"
    assert route("n", parse("identityfile /x/%l-%L\n")).identity_files == (
        f"/x/{socket.gethostname()}-{socket.gethostname().partition('.')[0]}",
    )


@pytest.mark.parametrize(
    ("value", "agent"),
    [
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("$OTHER_SOCK", "/run/other"),
        ("$UNSET_SOCK", None),
        ("none", None),
        ("~/a.sock", "HOME/a.sock"),
    ],
)
def test_agents(home: Path, monkeypatch: pytest.MonkeyPatch, value: str, agent: str | None) -> None:
    monkeypatch.setenv("OTHER_SOCK", "/run/other")
    monkeypatch.delenv("UNSET_SOCK", raising=False)
    expected = agent.replace("HOME", str(home)) if agent else None
    assert route("x", parse(f"identityagent {value}\n")).agent == expected
    assert route("x", {}).agent == "/run/agent"


@pytest.mark.parametrize("value", ["none", "None"])
def test_none_is_nothing(home: Path, value: str) -> None:
    text = "".join(
        f"{k} {value}\n" for k in ("proxyjump", "proxycommand", "userknownhostsfile", "identityfile")
    )
    found = route("x", parse(text))
    assert (found.jump, found.command, found.user_known_hosts, found.identity_files) == (None, None, (), ())


def test_a_known_hosts_path_with_blanks_is_one_when_it_exists(home: Path) -> None:
    (home / "a b").write_text("")
    text = f"userknownhostsfile {home}/a b\n"
    assert route("x", parse(text)).user_known_hosts == (f"{home}/a b",)


@needs_ssh
def test_the_callers_own_config_is_read_with_all_that_ssh_knows(home: Path) -> None:
    (home / ".ssh" / "more").write_text("Host gpu*\n  Port 2201\n  IdentityFile %d/k\n")
    config(
        home,
        f"Include {home}/.ssh/more\n"
        "Match originalhost gpu01 exec true\n  HostName 10.0.0.1\n  ProxyCommand nc -X '%h' %p\n"
        "Match host 10.0.0.1\n  User ana\n"
        "Match final all\n  HostKeyAlias one\n",
    )
    found = resolve("gpu01")
    assert (found.address, found.port, found.user) == ("10.0.0.1", 2201, "ana")
    assert found.command == "nc -X '10.0.0.1' 2201"
    assert found.identity_files == (f"{home}/k",)
    assert found.key_alias == "one"
    assert found.user_known_hosts[0] == f"{home}/.ssh/known_hosts"


@needs_ssh
def test_without_any_config_the_defaults_are_those_of_home(home: Path) -> None:
    found = resolve("gpu01")
    assert (found.address, found.port, found.user, found.jump) == ("gpu01", 22, getpass.getuser(), None)
    assert f"{home}/.ssh/id_ed25519" in found.identity_files
    assert found.user_known_hosts[0] == f"{home}/.ssh/known_hosts"


@needs_ssh
def test_arguments_reach_ssh(home: Path) -> None:
    config(home, "Match user bob\n  Port 2202\n")
    found = resolve("gpu01", user="bob", args=("-o", "HostKeyAlias=other", "-J", "ana@bastion,inner:23"))
    assert (found.port, found.key_alias, found.jump) == (2202, "other", "ana@bastion,inner:23")
    assert resolve("gpu01", port=7, args=("-p", "9")).port == 7


@needs_ssh
def test_a_config_file_of_the_arguments_stands_alone(home: Path, tmp_path: Path) -> None:
    config(home, "User wrong\n")
    (tmp_path / "other").write_text("User right\n")
    assert resolve("gpu01", args=("-F", str(tmp_path / "other"))).user == "right"


@needs_ssh
def test_what_ssh_complains_of_is_told(home: Path) -> None:
    config(home, "Host *\n  Prot 22\n")
    with pytest.raises(ConfigError) as caught:
        resolve("gpu01")
    assert "line 2: Bad configuration option: prot" in str(caught.value)
    config(home, "")
    with pytest.raises(ConfigError, match="invalid"):
        resolve("-oProxyCommand=touch x")


def test_without_the_ssh_program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config.shutil, "which", lambda name: None)
    config(home, "Host gpu01\n  HostName 10.0.0.1\n  User ana\n  IdentityFile ~/k\n  ProxyCommand nc %h %p\n")
    found = resolve("gpu01", port=2222)
    assert (found.address, found.user, found.port) == ("10.0.0.1", "ana", 2222)
    assert found.identity_files == (f"{home}/k",)
    (home / ".ssh" / "config").unlink()
    assert resolve("bob@gpu02").user == "bob"
    assert resolve("bob@gpu02").address == "gpu02"


def test_home_is_the_accounts_where_cron_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ssh_config.home({}) == os.path.expanduser(f"~{getpass.getuser()}")


@pytest.mark.parametrize(
    ("jump", "parts"),
    [
        ("bastion", ("bastion", None)),
        ("ana@bastion:2222", ("ana@bastion", 2222)),
        ("ssh://ana@bastion:2222/", ("ana@bastion", 2222)),
        ("[::1]:2222", ("::1", 2222)),
        ("ana@[fe80::1]", ("ana@fe80::1", None)),
        ("fe80::1", ("fe80::1", None)),
    ],
)
def test_jumps_are_parted(jump: str, parts: tuple[str, int | None]) -> None:
    assert _split(jump) == parts
