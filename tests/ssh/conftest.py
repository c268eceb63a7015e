"""A real sshd for the tests of the way to a host, each of them over every transport."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from orchestrator.inventory import Settings
from tests.ssh.server import Server, program, serving

TRANSPORTS = ("fabric", "openssh")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over each transport, or over those that its mark names, with the reason."""
    mark = metafunc.definition.get_closest_marker("transport")
    if mark:
        assert mark.kwargs["reason"], "say why it does not hold for the others"
    names = mark.args if mark else TRANSPORTS
    metafunc.parametrize("transport", names, indirect=True, scope="function")


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The transport of all hosts of this test that name none, as [all:vars] would set it."""
    name = str(request.param)
    at = [f.name for f in fields(Settings)].index("transport")
    defaults = list(Settings.__init__.__defaults__ or ())
    assert defaults[at] == "auto"
    monkeypatch.setattr(Settings.__init__, "__defaults__", (*defaults[:at], name, *defaults[at + 1 :]))
    return name


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
