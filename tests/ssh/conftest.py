"""A real sshd for the tests of the way to a host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ssh.server import Server, program, serving


@pytest.fixture(scope="session", autouse=True)
def _needs_sshd() -> None:
    """Skip where there is no OpenSSH server; in CI that is a failure."""
    missing = [name for name in ("sshd", "ssh", "ssh-keygen") if program(name) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"{', '.join(missing)} not found: the way to a host was not tested")
    if missing:
        pytest.skip(f"{', '.join(missing)} not found: the way to a host is not tested here")


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose host key is known to the caller; HOME is the caller's."""
    with serving(tmp_path / "gpu01") as server:
        server.trust()
        monkeypatch.setenv("HOME", str(server.client))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        yield server
