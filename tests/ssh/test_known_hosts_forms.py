"""Every form of a known_hosts entry, against a real sshd, with the ssh program as the judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ssh.oracle import both_arrive, both_refuse, configure, orch_says, ssh_arrives
from tests.ssh.server import Server, keygen

KNOWN = [
    pytest.param("[127.0.0.1]:{port} {key}", id="port"),
    pytest.param("127.0.0.1 {key}", id="host-only"),
    pytest.param("other,[127.0.0.1]:{port},[10.0.0.1]:22 {key}", id="list"),
    pytest.param("[127.0.0.*]:{port} {key}", id="wildcard"),
    pytest.param("[127.0.?.1]:* {key}", id="question-mark"),
    pytest.param("* {key}", id="any"),
    pytest.param("*,![127.0.0.2]:{port} {key}", id="other-negated"),
    pytest.param("\t [127.0.0.1]:{port}\t{key} a comment\r", id="blanks-and-cr"),
    pytest.param("# {key}\n\n!!\n[127.0.0.1]:{port} ssh-ed25519 broken\n* {key}", id="garbage-before"),
    pytest.param("@cert-authority *.lab {other}\n[127.0.0.1]:{port} {key}", id="authority-of-others"),
    pytest.param("@cert-authority * {other}\n[127.0.0.1]:{port} {key}", id="authority-and-key"),
    pytest.param("@revoked * {other}\n[127.0.0.1]:{port} {key}", id="another-revoked"),
    pytest.param("@revoked *.lab {key}\n[127.0.0.1]:{port} {key}", id="revoked-elsewhere"),
    pytest.param("[127.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {key}", id="old-and-new"),
    pytest.param("[127.0.0.1]:{port} {rsa}", id="only-rsa"),
    pytest.param("[127.0.0.1]:{port} {rsa}\n[127.0.0.1]:{port} {key}", id="two-types"),
    pytest.param("127.0.0.1 {other}\n[127.0.0.1]:{port} {rsa}", id="another-at-22"),
]

REFUSED = [
    pytest.param("", "unknown", id="empty"),
    pytest.param("127.0.0.1 {other}", "unknown", id="another-host-only"),
    pytest.param("[127.0.0.1]:1 {key}", "unknown", id="another-port"),
    pytest.param("*,!*127.0.0.1* {key}", "unknown", id="negated"),
    pytest.param("![127.0.0.1]:{port} {key}", "unknown", id="only-negated"),
    pytest.param("@cert-authority * {other}", "trusts it by a certificate", id="only-authority"),
    pytest.param("@revoked * {key}\n[127.0.0.1]:{port} {key}", "revoked", id="revoked"),
    pytest.param("@revoked * {key}", "revoked", id="only-revoked"),
    pytest.param("[127.0.0.1]:{port} {other}", "CHANGED", id="changed"),
    pytest.param("[127.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {rsa}", "CHANGED", id="one-type-changed"),
]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A key that is not the host's."""
    return keygen(tmp_path / "other")


def text(path: Path) -> str:
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def known(sshd: Server, other: Path, form: str) -> str:
    keys = {kind: text(sshd.folder / f"host_{kind}") for kind in ("ed25519", "rsa")}
    return form.format(port=sshd.port, key=keys["ed25519"], rsa=keys["rsa"], other=text(other)) + "\n"


@pytest.mark.parametrize("form", KNOWN)
def test_a_host_is_known(sshd: Server, other: Path, form: str) -> None:
    sshd.known_hosts.write_text(known(sshd, other, form))
    both_arrive(sshd)


@pytest.mark.parametrize(("form", "said"), REFUSED)
def test_a_host_is_not_known(sshd: Server, other: Path, form: str, said: str) -> None:
    sshd.known_hosts.write_text(known(sshd, other, form))
    both_refuse(sshd, said)
    assert sshd.count("Accepted publickey") == 0


def test_hashed_entries(sshd: Server, other: Path) -> None:
    lines = known(sshd, other, "[10.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {key}")
    sshd.known_hosts.write_text(lines)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", sshd.known_hosts], check=True, capture_output=True)
    assert "127.0.0.1" not in sshd.known_hosts.read_text()
    both_arrive(sshd)
    both_refuse(sshd, "unknown", "HostKeyAlias other")


def test_what_ssh_wrote_is_known_to_orch_and_the_other_way_round(sshd: Server) -> None:
    for hashed in ("yes", "no"):
        sshd.known_hosts.unlink()
        configure(sshd, f"StrictHostKeyChecking accept-new\nHashKnownHosts {hashed}")
        assert ssh_arrives(sshd)
        both_arrive(sshd)
        sshd.known_hosts.unlink()
        configure(sshd, f"StrictHostKeyChecking accept-new\nHashKnownHosts {hashed}")
        assert orch_says() == "hi"
        assert ("127.0.0.1" in sshd.known_hosts.read_text()) is (hashed == "no")
        both_arrive(sshd)


def test_several_files_the_global_one_and_none(sshd: Server, other: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    two.write_text(sshd.known_hosts.read_text())
    both_arrive(sshd, f"UserKnownHostsFile {one} {two}")
    both_refuse(sshd, "unknown", "UserKnownHostsFile none")
    both_refuse(sshd, "unknown", "UserKnownHostsFile /dev/null")
    (sshd.folder / "global").write_text(sshd.known_hosts.read_text())
    both_arrive(sshd, "UserKnownHostsFile none")
    (sshd.folder / "global").write_text(known(sshd, other, "@revoked * {key}"))
    both_refuse(sshd, f"revoked ({sshd.folder}/global:1)")


def test_a_new_key_goes_to_the_first_file(sshd: Server, tmp_path: Path) -> None:
    one, two = tmp_path / "new" / "one", tmp_path / "two"
    configure(sshd, f"StrictHostKeyChecking accept-new\nUserKnownHostsFile {one} {two}")
    assert orch_says() == "hi"
    assert one.read_text().startswith(f"[127.0.0.1]:{sshd.port} ssh-ed25519 ")
    assert not two.exists()
    configure(sshd, "StrictHostKeyChecking accept-new\nUserKnownHostsFile none")
    assert orch_says() == "hi"


@pytest.mark.parametrize("value", ["yes", "ask", "accept-new", "no", "off"])
def test_strict_host_key_checking(sshd: Server, other: Path, value: str) -> None:
    """Nobody can be asked here, so `ask` refuses; a changed key is refused even where ssh would go on."""
    sshd.known_hosts.unlink()
    if value in ("yes", "ask"):
        both_refuse(sshd, "unknown", f"StrictHostKeyChecking {value}")
        assert not sshd.known_hosts.exists()
    else:
        both_arrive(sshd, f"StrictHostKeyChecking {value}")
    sshd.known_hosts.write_text(known(sshd, other, "[127.0.0.1]:{port} {other}"))
    configure(sshd, f"StrictHostKeyChecking {value}")
    assert "CHANGED" in orch_says()
    assert ssh_arrives(sshd) is (value in ("no", "off"))


def test_host_key_alias(sshd: Server, other: Path) -> None:
    sshd.known_hosts.write_text(known(sshd, other, "[127.0.0.1]:{port} {other}\nthe-gpu {key}"))
    both_arrive(sshd, "HostKeyAlias the-gpu")
    both_refuse(sshd, "unknown", "HostKeyAlias another")


def test_host_key_algorithms(sshd: Server, other: Path) -> None:
    """The host's RSA key is right and its ed25519 key is not: which of them is asked for decides."""
    form = "[127.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {rsa}"
    sshd.known_hosts.write_text(known(sshd, other, form))
    both_refuse(sshd, "CHANGED", "HostKeyAlgorithms ssh-ed25519,rsa-sha2-512")
    both_arrive(sshd, "HostKeyAlgorithms rsa-sha2-512")
    both_arrive(sshd, "HostKeyAlgorithms -ssh-ed25519,ecdsa-*")


def test_revoked_host_keys(sshd: Server, other: Path, tmp_path: Path) -> None:
    host = sshd.folder / "host_ed25519.pub"
    krl, plain, harmless = tmp_path / "krl", tmp_path / "list", tmp_path / "harmless"
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", krl, host], check=True)
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", harmless, f"{other}.pub"], check=True)
    plain.write_text("# lab\n" + text(other) + "\n" + host.read_text())
    for file in (krl, plain):
        both_refuse(sshd, f"its host key is revoked ({file})", f"RevokedHostKeys {file}")
    for file in (harmless, Path(f"{other}.pub")):
        both_arrive(sshd, f"RevokedHostKeys {file}")
    both_refuse(sshd, "RevokedHostKeys: No such file", f"RevokedHostKeys {tmp_path}/missing")
