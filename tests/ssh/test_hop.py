"""The second login, through the host, into the container's sshd; its host key is pinned."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import HostError, NotPermitted
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.local import LocalMachine
from orchestrator.hosts.ssh import hop
from orchestrator.inventory import Host
from tests.ssh.server import Server, free_port, keygen, serving
from tests.ssh.test_login import ME, add, agent, public, without_key

__all__ = ["agent"]


@pytest.fixture
def container(sshd: Server, tmp_path: Path) -> Iterator[Server]:
    """A second sshd that lets in the same key."""
    with serving(tmp_path / "container") as server:
        server.authorized.write_text(sshd.authorized.read_text())
        yield server


def host_keys(server: Server) -> list[str]:
    return [k.with_suffix(".pub").read_text().strip() for k in server.host_keys]


def enter(machine: Machine, container: Server, **options: object) -> Machine:
    return hop(machine, container.port, user=ME, host_keys=host_keys(container), **options)  # type: ignore[arg-type]


def test_the_key_of_the_host_opens_the_container(sshd: Server, container: Server) -> None:
    with connect(sshd.host()) as machine:
        with enter(machine, container) as inside:
            assert inside.run(Script("x", "echo $HOME")).text == f"{container.home}\n"
            inside.put(b"x", "~/x")
            into = io.BytesIO()
            inside.get("~/x", into)
            assert into.getvalue() == b"x"
            with inside.stream(Command.of("cat")) as stream:
                stream.close_stdin()
                assert stream.read() == b""
            assert inside.tunnel(container.port)
            assert inside.client_keys == (public(sshd.login),)
        assert machine.run(Script("x", "echo still")).out == b"still\n"


def test_a_key_of_the_agent_opens_both(sshd: Server, container: Server, agent: Path) -> None:
    add(sshd.login)
    with connect(without_key(sshd.host())) as machine, enter(machine, container) as inside:
        assert inside.run(Script("x", "echo hi")).out == b"hi\n"


def test_another_host_key_is_refused(sshd: Server, container: Server, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    with connect(sshd.host()) as machine:
        with pytest.raises(
            NotPermitted, match="gpu01: the host key of its container is not the one"
        ) as caught:
            hop(machine, container.port, user=ME, host_keys=[other])
    assert caught.value.exit_code == 77
    assert container.count("Accepted publickey") == 0


def test_a_key_that_the_container_does_not_know(sshd: Server, container: Server, tmp_path: Path) -> None:
    own = keygen(tmp_path / "own")
    container.authorized.write_text(own.with_suffix(".pub").read_text())
    with connect(sshd.host()) as machine:
        with pytest.raises(NotPermitted) as caught:
            enter(machine, container)
        assert (
            f"gpu01: login refused for {ME}@gpu01 (its container) (tried keys: the key of the host)"
            in str(caught.value)
        )
        with enter(machine, container, keys=[str(own)]) as inside:
            assert inside.client_keys == (public(own),)


def test_nothing_listens_there(sshd: Server) -> None:
    with (
        connect(sshd.host()) as machine,
        pytest.raises(HostError, match="gpu01: nothing answers at "),
    ):
        hop(machine, free_port(), user=ME, host_keys=[])


def test_from_this_machine_itself(sshd: Server, container: Server) -> None:
    machine = LocalMachine(replace(Host("here", "localhost"), connection="local"))
    with enter(machine, container, keys=[str(sshd.login)]) as inside:
        assert inside.run(Script("x", "echo $HOME")).text == f"{container.home}\n"
    with pytest.raises(NotPermitted, match="here: login refused"):
        enter(machine, container)
