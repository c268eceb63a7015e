"""Old and new servers: what they sign and encrypt with, and what is said where that does not meet."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import paramiko
import pytest

from orchestrator.errors import HostError
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from tests.ssh.oracle import configure, orch_says, ssh_arrives
from tests.ssh.peers import listening
from tests.ssh.server import Server, keygen
from tests.ssh.test_accounts import restart

OLD = (
    "KexAlgorithms diffie-hellman-group14-sha1,diffie-hellman-group1-sha1",
    "HostKeyAlgorithms ssh-rsa",
    "Ciphers aes128-cbc,3des-cbc",
    "MACs hmac-sha1",
)
NEW = (
    "KexAlgorithms sntrup761x25519-sha512@openssh.com",
    "HostKeyAlgorithms ssh-ed25519",
    "Ciphers chacha20-poly1305@openssh.com",
)


@pytest.fixture
def rsa(sshd: Server, tmp_path: Path) -> Path:
    """An RSA key that the host lets in."""
    key = keygen(tmp_path / "rsa", "rsa")
    sshd.authorized.write_text(key.with_suffix(".pub").read_text())
    return key


@contextmanager
def sha1_server(sshd: Server) -> Iterator[int]:
    """A server that tells `server-sig-algs=ssh-rsa`, with a host key that is known, and lets nobody in."""
    with listening() as sock, ExitStack() as closed:
        sock.settimeout(60)
        port = sock.getsockname()[1]
        kind, key = (sshd.folder / "host_ed25519.pub").read_text().split()[:2]
        sshd.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")

        def serve() -> None:
            for _ in range(2):
                transport = paramiko.Transport(sock.accept()[0])
                closed.callback(transport.close)
                transport._preferred_pubkeys = ("ssh-rsa",)
                transport.add_server_key(paramiko.PKey.from_path(sshd.folder / "host_ed25519"))
                transport.start_server(server=paramiko.ServerInterface())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield port
        thread.join(60)


@pytest.mark.parametrize("lines", [OLD, NEW], ids=["old", "new"])
def test_a_server_with_other_algorithms_is_told_in_a_line(
    sshd: Server, lines: tuple[str, ...], transport: str
) -> None:
    restart(sshd, *lines)
    if transport == "openssh" and lines is NEW:
        connect(sshd.host()).close()  # ssh knows them all
        return
    with pytest.raises(HostError) as caught:
        connect(sshd.host())
    said = str(caught.value)
    assert "have no algorithm in common: " in said
    assert "OpenSSH" in said
    assert "KexAlgorithms" in said
    assert "\n" not in said


@pytest.mark.transport("auto", reason="it is about the choice between the two")
@pytest.mark.parametrize("lines", [OLD, NEW], ids=["old", "new"])
def test_what_ssh_reaches_is_reached(sshd: Server, lines: tuple[str, ...]) -> None:
    """The user has allowed the old ones in ~/.ssh/config, as ssh asks for."""
    restart(sshd, *lines)
    sshd.trust("rsa")
    configure(sshd, "".join(x.replace(" ", " +", 1) + "\n" for x in lines))
    assert ssh_arrives(sshd)
    assert orch_says() == "hi"


@pytest.mark.parametrize("line", ["PubkeyAcceptedAlgorithms ssh-rsa", "PubkeyAcceptedAlgorithms ssh-ed25519"])
def test_an_rsa_key_that_is_refused_for_its_type(sshd: Server, rsa: Path, line: str) -> None:
    """The server says no more than no."""
    restart(sshd, line)
    configure(sshd, "", key=rsa)
    assert not ssh_arrives(sshd)
    said = orch_says()
    assert f"(tried keys: {rsa})" in said
    assert "if it is there, its sshd may not take this type of key: use an ed25519 key" in said


@pytest.mark.transport("fabric", reason="ssh tells it in no way")
def test_a_server_that_says_it_knows_sha1_only(sshd: Server, rsa: Path, tmp_path: Path) -> None:
    """Newer servers with `PubkeyAcceptedAlgorithms ssh-rsa`, and what is set in ~/.ssh/config for them."""
    with sha1_server(sshd) as port:
        way = f"Host gpu\n Port {port}\n"
        configure(sshd, way, key=rsa)
        assert (
            f"none; {rsa} is an RSA key, which its sshd takes with SHA-1 only). Use an ed25519 key"
            in orch_says()
        )
        configure(sshd, f"{way} PubkeyAcceptedAlgorithms +ssh-rsa", key=rsa)
        assert "with SHA-1 only, as only the ssh program can do" in orch_says()


def test_other_keys_are_tried_where_an_rsa_key_can_not_be_used(sshd: Server, rsa: Path) -> None:
    sshd.authorized.write_text(sshd.login.with_suffix(".pub").read_text())
    restart(sshd, "PubkeyAcceptedAlgorithms ssh-rsa,ssh-ed25519")
    configure(sshd, f"IdentityFile {rsa}")
    assert ssh_arrives(sshd)
    assert orch_says() == "hi"


@pytest.mark.parametrize(
    "lines",
    [
        ("Ciphers aes128-gcm@openssh.com",),
        ("Ciphers aes256-ctr", "MACs hmac-sha2-256-etm@openssh.com"),
        ("Ciphers aes256-ctr", "MACs hmac-sha2-256"),
    ],
    ids=["gcm", "etm", "mac"],
)
@pytest.mark.parametrize("who", ["host", "here"])
def test_new_keys_within_a_stream_lose_nothing(
    sshd: Server, lines: tuple[str, ...], who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are made anew some five times within it, as either side wants it."""
    if who == "host":
        restart(sshd, *lines, "RekeyLimit 1M")
    else:
        restart(sshd, *lines)
        configure(sshd, "RekeyLimit 1M\n")  # for the ssh program
        monkeypatch.setattr(paramiko.packet.Packetizer, "REKEY_BYTES", 1 << 20)
    data = random.Random(7).randbytes(5_000_000)
    (sshd.home / "data").write_bytes(data)
    got = bytearray()
    with connect(sshd.host()) as machine, machine.stream(Script("cat", 'cat "$HOME/data"')) as stream:
        while piece := stream.read(1 << 18, timeout=60):
            got += piece
    assert bytes(got) == data
