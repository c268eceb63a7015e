"""Logging in by key: which keys are tried, and what is said when none is right."""

from __future__ import annotations

import getpass
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, NotPermitted
from orchestrator.hosts.connect import connect
from orchestrator.inventory import Host
from tests.ssh.server import Server, keygen

ME = getpass.getuser()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An agent of one's own; its socket is in SSH_AUTH_SOCK."""
    path = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as process:
        with socket.socket(socket.AF_UNIX) as sock:
            while sock.connect_ex(str(path)):  # the file is there before it listens
                time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        yield path
        process.terminate()


def add(*keys: Path) -> None:
    for key in keys:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, stdin=subprocess.DEVNULL)


def without_key(host: Host) -> Host:
    return replace(host, key=None)


def refused(host: Host) -> NotPermitted:
    with pytest.raises(NotPermitted) as caught:
        connect(host)
    assert caught.value.exit_code == 77
    assert "\n" not in str(caught.value)
    return caught.value


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def test_the_key_that_logged_in_is_told(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        assert machine.client_keys == (public(sshd.login),)


def test_a_wrong_key_is_refused_and_named(sshd: Server, tmp_path: Path) -> None:
    wrong = keygen(tmp_path / "wrong")
    assert str(refused(sshd.host(key=wrong))) == (
        f"gpu01: login refused for {ME}@gpu01 (tried keys: {wrong}). "
        "Put the public key into ~/.ssh/authorized_keys there"
    )


def test_the_inventorys_key_is_the_only_one_that_is_tried(sshd: Server, tmp_path: Path, agent: Path) -> None:
    add(sshd.login)
    refused(sshd.host(key=keygen(tmp_path / "wrong")))
    assert sshd.count("Failed publickey") == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: None, "does not exist"),
        (lambda p: p.write_text(keygen(p.with_name("k")).with_suffix(".pub").read_text()), "is a public key"),
        (lambda p: p.write_text("hello\n"), "is no private key, or of a kind that can't be read"),
        (lambda p: p.write_text(""), "is no private key, or of a kind that can't be read"),
        (lambda p: p.write_text("PuTTY-User-Key-File-3: ssh-ed25519\n"), "is a PuTTY key"),
        (lambda p: p.mkdir(), "can't be read (Is a directory)"),
    ],
)
def test_a_bad_key_file_is_named_with_where_it_is_set(
    sshd: Server, tmp_path: Path, make: object, said: str
) -> None:
    path = tmp_path / "bad"
    make(path)  # type: ignore[operator]
    with pytest.raises(ConfigError) as caught:
        connect(sshd.host(key=path))
    assert caught.value.exit_code == 78
    assert str(caught.value).startswith(f"gpu01: key file {path} {said}")
    assert str(caught.value).endswith("(hosts.ini:1)")


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_keys_of_every_type_and_format(sshd: Server, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / kind, kind)
    with sshd.authorized.open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    connect(sshd.host(key=key)).close()
    if kind != "ed25519":
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "", "-m", "PEM", "-f", key], check=True, stdout=-3)
        assert "OPENSSH" not in key.read_text()
        connect(sshd.host(key=key)).close()


@pytest.mark.parametrize("format_", ["RFC4716", "PEM"])
def test_a_locked_key_needs_an_agent(sshd: Server, tmp_path: Path, format_: str) -> None:
    locked = keygen(tmp_path / "locked", "rsa", passphrase="secret")
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "secret", "-N", "secret", "-m", format_, "-f", locked],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert str(refused(sshd.host(key=locked))) == (
        f"gpu01: key file {locked} needs a passphrase and no agent has it. "
        f"ssh-add {locked}; for cron, use a key without a passphrase"
    )


def test_a_locked_key_is_used_through_the_agent(sshd: Server, tmp_path: Path, agent: Path) -> None:
    locked = tmp_path / "locked"
    locked.touch(mode=0o600)
    locked.write_bytes(sshd.login.read_bytes())
    add(sshd.login, keygen(tmp_path / "other"))
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", locked], check=True, stdout=-3)
    with connect(sshd.host(key=locked)) as machine:
        assert machine.client_keys == (public(sshd.login),)


def test_the_keys_of_ssh_are_found_without_any_setting(sshd: Server) -> None:
    for name in ("id_rsa", "id_ed25519"):
        keygen(sshd.client / ".ssh" / name, name[3:])
    said = str(refused(without_key(sshd.host())))
    assert f"(tried keys: {sshd.client}/.ssh/id_rsa, {sshd.client}/.ssh/id_ed25519)" in said
    with sshd.authorized.open("a") as file:
        file.write((sshd.client / ".ssh" / "id_ed25519.pub").read_text())
    connect(without_key(sshd.host())).close()


def test_no_key_at_all(sshd: Server) -> None:
    assert f"login refused for {ME}@gpu01 (tried keys: none)" in str(refused(without_key(sshd.host())))


def test_a_host_that_is_named_with_its_user_is_not_given_two(sshd: Server) -> None:
    named = replace(without_key(sshd.host()), name=f"{ME}@gpu01")
    assert f" login refused for {ME}@gpu01 (tried" in str(refused(named))


def test_a_locked_key_of_ssh_is_passed_over_and_named(sshd: Server) -> None:
    """The ssh program offers its public part first, so the host must know it for this to matter."""
    key = keygen(sshd.client / ".ssh" / "id_ed25519", passphrase="secret")
    sshd.authorized.write_text(key.with_suffix(".pub").read_text())
    said = str(refused(without_key(sshd.host())))
    assert f"none; {sshd.client}/.ssh/id_ed25519 needs a passphrase and no agent has it)" in said


def test_the_agents_keys_are_tried(sshd: Server, agent: Path) -> None:
    add(sshd.login)
    with connect(without_key(sshd.host())) as machine:
        assert machine.client_keys == (public(sshd.login),)


def test_identity_agent_of_ssh_config(sshd: Server, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(sshd.login)
    monkeypatch.delenv("SSH_AUTH_SOCK")
    (sshd.client / ".ssh" / "config").write_text(f"IdentityAgent {agent}\n")
    connect(without_key(sshd.host())).close()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    (sshd.client / ".ssh" / "config").write_text("IdentityAgent none\n")
    refused(without_key(sshd.host()))


def test_too_many_keys_in_the_agent_and_how_to_name_the_right_one(
    sshd: Server, tmp_path: Path, agent: Path
) -> None:
    sshd.stop()
    sshd.start("MaxAuthTries 3")
    add(*(keygen(tmp_path / f"k{n}") for n in range(8)), sshd.login)
    said = str(refused(without_key(sshd.host())))
    assert "the host hung up after 3 keys (MaxAuthTries); name the right one" in said
    connect(sshd.host()).close()
    (sshd.client / ".ssh" / "config").write_text(f"IdentityFile {sshd.login}\nIdentitiesOnly yes\n")
    connect(without_key(sshd.host())).close()
    (sshd.client / ".ssh" / "config").write_text(f"IdentityFile {sshd.login}.pub\nIdentitiesOnly yes\n")
    connect(without_key(sshd.host())).close()


def test_identities_only_leaves_the_agents_other_keys_alone(
    sshd: Server, tmp_path: Path, agent: Path
) -> None:
    add(sshd.login)
    other = keygen(tmp_path / "other")
    (sshd.client / ".ssh" / "config").write_text(f"IdentityFile {other}\nIdentitiesOnly yes\n")
    assert f"(tried keys: {other})" in str(refused(without_key(sshd.host())))


def test_an_agent_that_never_answers_does_not_stop_a_login_by_file(
    sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "stale"))
        stale.listen(8)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "stale"))
        connect(sshd.host()).close()  # the inventory's key: the agent isn't even asked
        began = time.monotonic()
        said = str(refused(without_key(sshd.host())))
        assert f"the agent at {tmp_path}/stale gives no answer" in said
        (sshd.client / ".ssh" / "config").write_text(f"IdentityFile {sshd.login}\n")
        connect(without_key(sshd.host())).close()
        assert time.monotonic() - began < 60
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    connect(without_key(sshd.host())).close()


def test_a_user_certificate(sshd: Server, tmp_path: Path) -> None:
    authority, key = keygen(tmp_path / "ca"), keygen(tmp_path / "key")
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "ana", "-n", ME, f"{key}.pub"], check=True)
    sshd.authorized.write_text("cert-authority " + authority.with_suffix(".pub").read_text())
    connect(sshd.host(key=key)).close()  # KEY-cert.pub lies next to it
    sshd.authorized.write_text(key.with_suffix(".pub").read_text())
    connect(sshd.host(key=key)).close()  # the server knows no certificates: the plain key is tried too
    sshd.authorized.write_text("cert-authority " + authority.with_suffix(".pub").read_text())
    moved = tmp_path / "elsewhere-cert.pub"
    (tmp_path / "key-cert.pub").rename(moved)
    refused(sshd.host(key=key))
    (sshd.client / ".ssh" / "config").write_text(f"IdentityFile {key}\nCertificateFile {moved}\n")
    connect(without_key(sshd.host())).close()


def test_a_server_that_takes_no_keys(sshd: Server) -> None:
    sshd.stop()
    sshd.start("PubkeyAuthentication no", "PasswordAuthentication yes", "UsePAM yes")
    said = str(refused(sshd.host()))
    assert f"login refused for {ME}@gpu01: it takes no keys, only password" in said


def test_a_server_that_wants_more_than_a_key(sshd: Server) -> None:
    sshd.stop()
    sshd.start("AuthenticationMethods publickey,password", "PasswordAuthentication yes")
    assert "the key is right, but it also wants password" in str(refused(sshd.host()))
