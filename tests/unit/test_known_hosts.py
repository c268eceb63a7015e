"""known_hosts files as people have them; ssh-keygen is the judge where it is there."""

from __future__ import annotations

import base64
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.hosts.known_hosts import (
    PublicKey,
    add,
    hash_name,
    host_name,
    parse,
)
from orchestrator.hosts.known_hosts_files import about


def key(seed: int = 1, kind: str = "ssh-ed25519") -> PublicKey:
    """A key of the right shape; nobody has its private part."""
    name, body = kind.encode(), bytes([seed]) * 32
    return PublicKey(kind, len(name).to_bytes(4, "big") + name + len(body).to_bytes(4, "big") + body)


A, B = key(1), key(2)

Names = Callable[[str, str], list[str]]


@pytest.fixture
def names(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """Return a function that says which lines of a file with such a text are about a name."""
    path = tmp_path / "kh"

    def asked(text: str, name: str) -> list[str]:
        path.write_text(text)
        return [e.where.rpartition("/")[2] for e in about([str(path)], name)]

    return asked


@pytest.mark.parametrize(
    ("patterns", "name", "is_it"),
    [
        ("gpu01", "gpu01", True),
        ("GPU01", "gpu01", True),
        ("gpu01", "gpu011", False),
        ("gpu01,10.0.0.1", "10.0.0.1", True),
        ("gpu*", "gpu17", True),
        ("gpu?", "gpu17", False),
        ("*.lab,!bad.lab", "good.lab", True),
        ("*.lab,!bad.lab", "bad.lab", False),
        ("!bad.lab", "good.lab", False),
        ("[gpu01]:2222", "[gpu01]:2222", True),
        ("[gpu01]:2222", "gpu01", False),
        ("gpu01", "[gpu01]:2222", False),
        ("[*]:2222", "[gpu01]:2222", True),
        ("[gpu0a]:2222", "[gpu0b]:2222", False),
        pytest.param(hash_name("gpu01"), "gpu01", True, id="hashed"),
        pytest.param(hash_name("gpu01"), "gpu02", False, id="hashed-other"),
        pytest.param(hash_name("[gpu01]:2222"), "[gpu01]:2222", True, id="hashed-port"),
        ("|1|broken", "gpu01", False),
        ("|1|*|*", "gpu01", False),
    ],
)
def test_which_lines_are_about_a_host(names: Names, patterns: str, name: str, is_it: bool) -> None:
    assert bool(names(f"{patterns} {A.text}", name)) is is_it


def test_what_is_no_entry_is_passed_over(names: Names) -> None:
    text = "\n".join(
        [
            "# gpu01 a comment",
            "",
            "gpu01",
            "gpu01 ssh-ed25519",
            "gpu01 ssh-ed25519 !!!notbase64",
            f"gpu01 ssh-rsa {A.text.split()[1]}",  # the blob is another type's
            "gpu01 1024 35 1234567",  # protocol 1
            f"@unknown gpu01 {A.text}",
            f"gpu01 {A.text} and a comment",
        ]
    )
    assert names(text, "gpu01") == ["kh:9"]


def test_markers_are_kept() -> None:
    text = f"@revoked gpu01 {A.text}\n@cert-authority *.lab {B.text}\n"
    assert [(e.marker, e.key) for e in parse(text, "kh")] == [("@revoked", A), ("@cert-authority", B)]


def test_a_port_is_named_only_where_it_is_not_22() -> None:
    assert host_name("GPU01", 22) == "gpu01"
    assert host_name("::1", 2222) == "[::1]:2222"


def test_files_are_read_in_turn_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9\ngpu01 " + A.text.encode())
    (tmp_path / "b").write_text(f"gpu01 {B.text}\r\n")
    found = about([str(tmp_path / "none"), str(tmp_path / "a"), str(tmp_path / "b")], "gpu01")
    assert [e.key for e in found] == [A, B]
    assert found[0].where == f"{tmp_path}/a:2"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: can't be read: Is a directory"):
        about([str(tmp_path)], "gpu01")


def test_the_lines_about_a_host_are_in_the_order_of_the_file(names: Names) -> None:
    patterns = ("*.lab", "gpu01.lab,GPU01.lab", "other", hash_name("gpu01.lab"))
    text = "".join(f"{p} {A.text}\n" for p in patterns)
    assert names(text, "gpu01.lab") == ["kh:1", "kh:2", "kh:4"]


def test_a_file_that_has_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "kh"
    path.write_text(f"gpu01 {A.text}\n")
    assert [e.key for e in about([str(path)], "gpu01")] == [A]
    add(str(path), "gpu01", B)
    assert [e.key for e in about([str(path)], "gpu01")] == [A, B]
    (tmp_path / "new").write_text(f"gpu01 {B.text}\n")
    (tmp_path / "new").replace(path)
    assert [e.key for e in about([str(path)], "gpu01")] == [B]
    path.unlink()
    assert about([str(path)], "gpu01") == []


def test_a_line_is_added_after_a_file_without_a_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / ".ssh" / "known_hosts"
    add(str(path), "gpu01", A)
    path.write_text(path.read_text().rstrip("\n"))
    add(str(path), "gpu02", B)
    assert path.read_text() == f"gpu01 {A.text}\ngpu02 {B.text}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: can't be written"):
        add(str(tmp_path), "gpu01", A)


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not here to compare with")
def test_fingerprint_and_hash_are_those_of_ssh(names: Names, tmp_path: Path) -> None:
    for kind in ("ed25519", "rsa", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / kind], check=True)
        ours = PublicKey.parse((tmp_path / f"{kind}.pub").read_text())
        shown = subprocess.run(
            ["ssh-keygen", "-l", "-f", tmp_path / f"{kind}.pub"], capture_output=True, text=True, check=True
        ).stdout
        assert ours.fingerprint in shown
        assert ours.name == kind
        add(str(tmp_path / "kh"), f"[{kind}.lab]:2222", ours, hashed=True)
    for kind in ("ed25519", "rsa", "ecdsa"):
        found = subprocess.run(
            ["ssh-keygen", "-F", f"[{kind}.lab]:2222", "-f", tmp_path / "kh"],
            capture_output=True,
            check=False,
        )
        assert found.returncode == 0
    assert "lab" not in (tmp_path / "kh").read_text()
    text = "".join(f"{n} {A.text}\n" for n in ("gpu01", "[gpu01]:22", "10.1.2.3"))
    (tmp_path / "plain").write_text(text)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "plain"], capture_output=True, check=True)
    hashed = (tmp_path / "plain").read_text()
    assert "gpu01" not in hashed
    assert names(hashed, "gpu01") == ["kh:1"]
    assert names(hashed, "10.1.2.3") == ["kh:3"]


def test_a_key_is_what_it_says() -> None:
    assert PublicKey.parse(A.text + " ana@laptop") == A
    with pytest.raises(ValueError, match="no key of type ssh-rsa"):
        PublicKey.parse("ssh-rsa " + base64.b64encode(A.blob).decode())
