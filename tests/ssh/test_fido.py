"""Keys on a FIDO token: the token is stood in for by a library that signs as one does, all else is real."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import OrchError
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.openssh import OpenSshMachine
from orchestrator.hosts.ssh import SshMachine
from orchestrator.inventory import Host
from tests.ssh.server import Server, keygen
from tests.ssh.test_login import public

_VERSIONS = (10, 11, 9, 8, 7)  # of ssh's interface to tokens; an ssh takes exactly one


@pytest.fixture
def key(sshd: Server, tmp_path: Path) -> Path:
    """A key on a token, which gpu01 takes; ~/.ssh/config names the token's library."""
    library, key = tmp_path / "token.so", tmp_path / "on_token"
    if not any(made(library, key, version) for version in _VERSIONS):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing("no gcc or libssl-dev, or an ssh without FIDO: keys on tokens are not tested here")
    with sshd.authorized.open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    (sshd.client / ".ssh" / "config").write_text(
        f"SecurityKeyProvider {library}\nHost gpu\n HostName 127.0.0.1\n Port {sshd.port}\n"
    )
    return key


def made(library: Path, key: Path, version: int) -> bool:
    """Build the library for a version of the interface, and make a key by it."""
    source = Path(__file__).with_name("token.c")
    build = ["gcc", "-shared", "-fPIC", f"-DVERSION={version << 16}", "-o", library, source, "-lcrypto"]
    make = ["ssh-keygen", "-q", "-t", "ed25519-sk", "-w", library, "-N", "", "-f", key]
    return bool(shutil.which("gcc")) and all(
        subprocess.run(words, check=False, capture_output=True).returncode == 0 for words in (build, make)
    )


@pytest.mark.transport("auto", "openssh", reason="Fabric can't")
def test_a_key_on_a_token_opens_a_host(sshd: Server, key: Path) -> None:
    with connect(sshd.host(key=key)) as machine:
        assert isinstance(machine, OpenSshMachine)
        assert machine.run(Script("x", "echo $HOME")).text == f"{sshd.home}\n"
        assert machine.client_keys == (public(key),)
        assert machine.private_key is None  # the container is entered by the engine
    shutil.copy(key, sshd.client / ".ssh" / "id_ed25519_sk")
    with connect(Host("gpu01", "gpu")) as machine:
        assert isinstance(machine, OpenSshMachine)


@pytest.mark.transport("auto", reason="it is what chooses")
def test_a_key_in_a_file_is_taken_first(sshd: Server, key: Path) -> None:
    shutil.copy(key, sshd.client / ".ssh" / "id_ed25519_sk")
    shutil.copy(sshd.login, sshd.client / ".ssh" / "id_ed25519")
    with connect(Host("gpu01", "gpu")) as machine:
        assert isinstance(machine, SshMachine)


@pytest.mark.transport("auto", reason="it is what chooses")
def test_a_token_is_tried_where_no_file_opens(sshd: Server, key: Path) -> None:
    shutil.copy(key, sshd.client / ".ssh" / "id_ed25519_sk")
    keygen(sshd.client / ".ssh" / "id_ed25519")
    with connect(Host("gpu01", "gpu")) as machine:
        assert isinstance(machine, OpenSshMachine)


@pytest.mark.transport("fabric", reason="it says what Fabric can't do")
def test_what_is_said_without_the_ssh_program(sshd: Server, key: Path) -> None:
    with pytest.raises(OrchError, match=r"is a sk-ssh-ed25519@openssh\.com key, which needs the ssh program"):
        connect(sshd.host(key=key))
