"""Private keys as files: loaded once for all hosts, and each host's copy its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.hosts.key_files import BadKey, authorized_line, forms, load_key


def made(path: Path, *words: str, kind: str = "rsa", passphrase: str = "") -> Path:
    """Make a key pair by ssh-keygen."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "", *words, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.mark.parametrize("form", [(), ("-m", "PEM"), ("-m", "PKCS8")])
def test_an_rsa_key_in_each_form_signs(tmp_path: Path, form: tuple[str, ...]) -> None:
    key = load_key(str(made(tmp_path / "key", *form)))
    assert authorized_line(key) == (tmp_path / "key.pub").read_text().strip()
    signature = key.sign_ssh_data(b"x", "rsa-sha2-512")
    signature.rewind()
    assert key.verify_ssh_sig(b"x", signature)


@pytest.mark.parametrize("form", [(), ("-m", "PEM")])
def test_a_locked_rsa_key_is_said_to_be_locked(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = made(tmp_path / "key", *form, passphrase="secret words")
    with pytest.raises(BadKey, match="needs a passphrase") as caught:
        load_key(str(path))
    assert caught.value.locked


def test_what_is_no_rsa_key_although_it_begins_so_is_told(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n")
    path.chmod(0o600)
    with pytest.raises(BadKey, match="is no private key"):
        load_key(str(path))


def test_a_key_is_read_once_until_it_changes_and_each_login_has_its_own_certificate(tmp_path: Path) -> None:
    path, authority = made(tmp_path / "key"), made(tmp_path / "ca", kind="ed25519")
    words = ["ssh-keygen", "-q", "-s", str(authority), "-I", "ana", "-n", "ana", str(path) + ".pub"]
    subprocess.run(words, check=True)
    one, other = load_key(str(path)), load_key(str(path))
    assert one.key is other.key
    assert [bool(key.public_blob) for _, key in forms("key", one)] == [True, False]
    assert other.public_blob
    (tmp_path / "key-cert.pub").unlink()
    assert not load_key(str(path)).public_blob
    path.unlink()
    made(path)
    assert authorized_line(load_key(str(path))) != authorized_line(one)
