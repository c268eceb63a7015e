"""Stanzas for ~/.ssh/config, read back by the real ssh program."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.container.ssh_stanza import known_hosts_lines, stanza
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
