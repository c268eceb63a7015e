"""Stanzas for ~/.ssh/config, read back by the real ssh program."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.container.ssh_stanza import known_hosts_lines, stanza
from orchestrator.hosts.ssh_config import parse, route
from orchestrator.inventory import Host

from .test_environment import CONTAINER


def test_the_stanza_jumps_through_the_host() -> None:
    text = stanza(Host("gpu01", "gpu01"), CONTAINER, Path("/home/ana/.config/orch/known_hosts"))
    assert text.splitlines() == [
        "# project mnist on gpu01",
        "Host orch-mnist-gpu01",
        "    HostName 127.0.0.1",
        "    Port 2222",
        "    User ana",
        "    HostKeyAlias orch-mnist-gpu01",
        '    UserKnownHostsFile "/home/ana/.config/orch/known_hosts"',
        "    StrictHostKeyChecking yes",
        "    ProxyJump gpu01",
    ]


def test_a_local_host_needs_no_jump() -> None:
    text = stanza(replace(Host("here", "here"), connection="local"), CONTAINER, Path("/k"))
    assert "ProxyJump" not in text


def test_keys_stand_under_the_alias() -> None:
    assert known_hosts_lines(Host("gpu01", "gpu01"), CONTAINER) == ["orch-mnist-gpu01 ssh-ed25519 AAAA"]


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh program here")
def test_ssh_reads_what_the_inventory_says(tmp_path: Path) -> None:
    host = Host(
        "gpu01",
        "10.0.0.5",
        user="lab",
        port=2200,
        key="/keys/my lab",
        common_args=("-o", "ServerAliveInterval=7", "-oForwardAgent=no", "-J", "bastion", "-4"),
    )
    config = tmp_path / "config"
    config.write_text(stanza(host, CONTAINER, Path("/my k")))

    def read(name: str) -> set[str]:
        done = subprocess.run(
            ["ssh", "-G", "-F", str(config), name], capture_output=True, text=True, check=True
        )
        return set(done.stdout.splitlines())

    assert {
        "hostname 10.0.0.5",
        "user lab",
        "port 2200",
        "identityfile /keys/my lab",
        "serveraliveinterval 7",
        "proxyjump bastion",
    } <= read("orch-host-gpu01")
    assert {
        "hostname 127.0.0.1",
        "port 2222",
        "user ana",
        "proxyjump orch-host-gpu01",
        "hostkeyalias orch-mnist-gpu01",
        "stricthostkeychecking true",
    } <= read("orch-mnist-gpu01")


def of_ssh(config: Path, name: str) -> dict[str, list[str]]:
    """What ssh makes of a configuration."""
    done = subprocess.run(["ssh", "-G", "-F", str(config), name], capture_output=True, text=True, check=True)
    return parse(done.stdout)


CONFIGURED = """\
Host gpu01
    HostName 10.0.0.5
    Port 2200
    User lab
    ProxyJump bastion
    HostKeyAlias rack5
    UserKnownHostsFile /etc/lab/known
    IdentityFile /keys/100%%lab
    IdentityFile /keys/second
"""


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh program here")
@pytest.mark.parametrize("user", [None, "ana"], ids=["by its name alone", "as the inventory says"])
def test_what_ssh_config_says_of_the_host_holds_for_its_container(tmp_path: Path, user: str | None) -> None:
    config = tmp_path / "config"
    config.write_text(CONFIGURED)
    host = Host("gpu01", "gpu01", user=user)
    text = stanza(host, CONTAINER, Path("/k"), route("gpu01", of_ssh(config, "gpu01"), user=user))
    config.write_text(f"{CONFIGURED}\n{text}")
    container = of_ssh(config, "orch-mnist-gpu01")
    assert container["identityfile"] == ["/keys/100%%lab", "/keys/second"]
    (jump,) = container["proxyjump"]
    assert (jump == "gpu01") == (user is None)
    reached = of_ssh(config, jump)
    names = ["hostname", "port", "user", "proxyjump", "hostkeyalias", "userknownhostsfile", "identityfile"]
    expected = {**of_ssh(config, "gpu01"), **({"user": [user]} if user else {})}
    assert [reached[name] for name in names] == [expected[name] for name in names]


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh program here")
def test_keys_that_ssh_finds_by_itself_are_not_repeated(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host gpu01\n    HostName 10.0.0.5\n")
    text = stanza(Host("gpu01", "gpu01"), CONTAINER, Path("/k"), route("gpu01", of_ssh(config, "gpu01")))
    assert "IdentityFile" not in text
