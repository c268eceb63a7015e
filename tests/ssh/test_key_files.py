"""Key files in a state that ssh does not take, and what is said of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.hosts.connect import connect
from orchestrator.hosts.key_files import BadKey, load_key
from tests.ssh.oracle import both_arrive, both_refuse, configure, orch_says
from tests.ssh.server import Server, keygen


def copy(sshd: Server, name: str, mode: int) -> Path:
    """Copy the key that the host lets in, with another mode."""
    path = sshd.folder / name
    path.touch(mode=0o600)
    path.write_bytes(sshd.login.read_bytes())
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o777])
def test_a_key_that_others_may_read_is_refused_as_by_ssh(sshd: Server, mode: int) -> None:
    key = copy(sshd, "open", mode)
    with pytest.raises(ConfigError) as caught:
        connect(sshd.host(key=key))
    assert caught.value.exit_code == 78
    assert str(caught.value) == (
        f"gpu01: key file {key} may be read by others (mode {mode:04o}), so ssh refuses it: "
        f"chmod 600 {key} (hosts.ini:1)"
    )
    both_refuse(sshd, "may be read by others", key=key)
    assert sshd.count("Accepted publickey") == 0


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_key_that_only_its_owner_may_read(sshd: Server, mode: int) -> None:
    key = copy(sshd, "own", mode)
    connect(sshd.host(key=key)).close()
    both_arrive(sshd, key=key)


def test_a_default_key_that_others_may_read_is_passed_over_and_named(sshd: Server) -> None:
    path = sshd.client / ".ssh" / "id_ed25519"
    path.write_bytes(sshd.login.read_bytes())
    path.chmod(0o644)
    configure(sshd, "", key="none")
    config = sshd.client / ".ssh" / "config"
    config.write_text(config.read_text().replace(" IdentityFile none\n IdentitiesOnly yes\n", ""))
    assert f"tried keys: none; {path} may be read by others" in orch_says()


@contextmanager
def somebody_else() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to be somebody else for a moment")
def test_a_key_of_another_owner(tmp_path: Path) -> None:
    """Nothing is asked of the mode of a file that isn't ours, as long as it can be read."""
    key = keygen(tmp_path / "key")
    os.chown(key, 1, 1)
    key.chmod(0o644)
    load_key(str(key))
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    key.chmod(0o600)
    with somebody_else(), pytest.raises(BadKey, match=r"can't be read \(Permission denied\)"):
        load_key(str(key))
