"""What ~/.ssh/config may say of a host, on a real sshd, with the ssh program as the judge."""

from __future__ import annotations

import getpass
import socket
import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import Unreachable
from orchestrator.hosts.connect import connect
from orchestrator.hosts.ssh import SshMachine
from orchestrator.inventory import Host, Settings
from tests.ssh.oracle import both_arrive, both_refuse, configure, judged_before, orch_says, ssh_arrives
from tests.ssh.peers import listening
from tests.ssh.server import Server, keygen
from tests.ssh.test_login import add, agent

__all__ = ["agent"]

ME = getpass.getuser()


def test_include(sshd: Server, tmp_path: Path) -> None:
    (tmp_path / "lab.d").mkdir()
    (tmp_path / "lab.d" / "one.conf").write_text(f"Include {tmp_path}/deeper\n")
    (tmp_path / "lab.d" / "two.conf").write_text("Host gpu\n Port 1\n")
    (tmp_path / "deeper").write_text(f"Host gpu\n Port {sshd.port}\n")
    both_arrive(sshd, f"Include {tmp_path}/lab.d/*.conf {tmp_path}/missing")
    (tmp_path / "lab.d" / "one.conf").unlink()
    both_refuse(sshd, "connection refused (port 1)", f"Include {tmp_path}/lab.d/*.conf")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Match exec true", "Match exec false"),
        ('Match exec "test %h.%n.%r.%p = gpu.gpu.{me}.22"', 'Match exec "test %n = other"'),
        ("Match host gpu", "Match host gpu01"),
        ("Match final host 127.0.0.*", "Match final host gpu"),
        ("Match originalhost g?u,!gpu2", "Match originalhost g*,!gpu"),
        ("Match originalhost gpu user {me}", "Match originalhost gpu user nobody"),
        ("Match localuser {me}", "Match !localuser {me}"),
        ("Host other g*", "Host * !gpu"),
    ],
)
def test_match_and_host(sshd: Server, right: str, wrong: str) -> None:
    """The key is named in this block only."""
    both_arrive(sshd, f"{right.format(me=ME)}\n IdentityFile {sshd.login}\n", key="none")
    both_refuse(sshd, "tried keys: none", f"{wrong.format(me=ME)}\n IdentityFile {sshd.login}\n", key="none")


def test_tokens_of_paths(sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """%h %n %p %r %u %k and ${NAME} in IdentityFile, CertificateFile and UserKnownHostsFile."""
    folder = tmp_path / f"127.0.0.1 gpu {sshd.port} {ME} {ME} lab 100%"
    folder.mkdir()
    monkeypatch.setenv("LAB", str(tmp_path))
    authority, key = keygen(tmp_path / "ca"), keygen(folder / "key")
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "x", "-n", ME, f"{key}.pub"], check=True)
    (folder / "key-cert.pub").rename(folder / "cert")
    sshd.authorized.write_text("cert-authority " + authority.with_suffix(".pub").read_text())
    (folder / "known").write_text("lab " + sshd.known_hosts.read_text().partition(" ")[2])
    path = "${LAB}/%h %n %p %r %u %k 100%%"
    way = f'Host gpu\n HostKeyAlias lab\n UserKnownHostsFile "{path}/known"\n'
    both_arrive(sshd, f'{way} CertificateFile "{path}/cert"', key=f'"{path}/key"')
    both_refuse(sshd, "login refused", way, key=f'"{path}/key"')


def test_home_in_paths(sshd: Server) -> None:
    """`ssh` itself takes the account's home for these; orch takes $HOME, which is another here."""
    key = sshd.client / "key"
    key.touch(mode=0o600)
    key.write_bytes(sshd.login.read_bytes())
    for path in ("~/key", "%d/key"):
        configure(sshd, "", key=path)
        assert orch_says() == "hi"


@pytest.mark.parametrize("value", ["{folder}/%h-%r", "${{LAB_AGENT}}", "$LAB_AGENT", "SSH_AUTH_SOCK"])
def test_identity_agent(
    sshd: Server, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    add(sshd.login)
    (tmp_path / f"127.0.0.1-{ME}").symlink_to(agent)
    monkeypatch.setenv("LAB_AGENT", str(agent))
    if value != "SSH_AUTH_SOCK":
        monkeypatch.delenv("SSH_AUTH_SOCK")
    public = tmp_path / "key.pub"
    public.write_text(sshd.login.with_suffix(".pub").read_text())
    both_arrive(sshd, f"Host gpu\n IdentityAgent {value.format(folder=tmp_path)}\n", key=public)
    both_refuse(sshd, "tried keys: none", "Host gpu\n IdentityAgent none\n", key=public)


def test_tokens_of_a_proxy_command(sshd: Server, tmp_path: Path) -> None:
    relay = tmp_path / "relay"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "assert sys.argv[1:] == ['127.0.0.1', sys.argv[2], 'gpu', sys.argv[4], '%h', os.environ['HOME']]\n"
        "peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): peer.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := peer.recv(65536): os.write(1, data)\n"
    )
    both_arrive(sshd, f"Host gpu\n ProxyCommand python3 {relay} %h %p %n %r '%%h' ~\n")
    both_arrive(sshd, f"Host gpu\n HostName 127.0.0.1\n Port {sshd.port}\n ProxyCommand none\n")


def test_address_family(sshd: Server) -> None:
    both_arrive(sshd, "AddressFamily inet")
    both_refuse(sshd, "with an IPv6 address (AddressFamily inet6): 127.0.0.1", "AddressFamily inet6")


def test_bind_address(sshd: Server) -> None:
    both_arrive(sshd, "BindAddress 127.0.0.77")
    assert sshd.count("Connection from 127.0.0.77") == (1 if judged_before() else 2)
    both_refuse(sshd, "bindaddress 192.0.2.1: cannot assign", "BindAddress 192.0.2.1")


def test_connect_timeout_holds_where_the_inventory_says_nothing(sshd: Server) -> None:
    with listening() as silent:
        port = silent.getsockname()[1]
        configure(sshd, f"Host gpu\n HostName 127.0.0.1\n Port {port}\n ConnectTimeout 2\n")
        assert "no SSH answer within 2 s" in orch_says()
        host = Host("gpu01", "gpu", settings=Settings(timeout=0.5), sources={"timeout": "hosts.ini:1"})
        with pytest.raises(Unreachable, match=r"within 0\.5 s"):
            connect(host)


@pytest.mark.parametrize(
    "line",
    [
        "Ciphers aes256-gcm@openssh.com",
        "MACs hmac-sha2-512-etm@openssh.com\nCiphers aes128-ctr",
        "KexAlgorithms diffie-hellman-group16-sha512",
        "PubkeyAcceptedAlgorithms ssh-ed25519",
    ],
)
def test_algorithms_of_ssh_config(sshd: Server, line: str) -> None:
    both_arrive(sshd, line)
    if line.startswith("Ciphers"):
        sshd.stop()
        sshd.start("Ciphers aes128-ctr")
        both_refuse(sshd, "no algorithm in common", line)


@pytest.mark.transport("fabric", reason="the ssh program chooses by itself")
@pytest.mark.parametrize(
    ("line", "cipher"),
    [
        ("", "aes128-gcm@openssh.com"),
        ("Ciphers aes128-ctr,aes128-gcm@openssh.com", "aes128-ctr"),
        ("Ciphers chacha20-poly1305@openssh.com,aes256-ctr", "aes256-ctr"),
    ],
)
def test_a_cipher_of_one_pass_unless_ssh_config_prefers_another(sshd: Server, line: str, cipher: str) -> None:
    configure(sshd, line)
    with connect(Host("gpu01", "gpu")) as machine:
        assert isinstance(machine, SshMachine)
        assert machine._transport.remote_cipher == cipher


@pytest.mark.transport("fabric", reason="it says what Fabric can't do")
def test_what_only_the_ssh_program_can_do_is_named(sshd: Server, tmp_path: Path) -> None:
    command = tmp_path / "keys"
    command.write_text(f"#!/bin/sh\ncat {sshd.known_hosts}\n")
    command.chmod(0o755)
    configure(sshd, f"KnownHostsCommand {command}\nUserKnownHostsFile none")
    assert ssh_arrives(sshd)
    assert orch_says() == "gpu01: ssh_config has KnownHostsCommand for it, which only the ssh program can do"
    configure(sshd, "Ciphers chacha20-poly1305@openssh.com")
    assert ssh_arrives(sshd)
    assert "ssh_config asks for Ciphers chacha20-poly1305@openssh.com, which only the ssh" in orch_says()


def test_a_name_in_no_file_is_taken_as_it_is(sshd: Server) -> None:
    configure(sshd, "")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        configure(sshd, f"Host 127.0.0.1\n Port {sock.getsockname()[1]}\n")
        assert "connection refused" in orch_says("127.0.0.1")
