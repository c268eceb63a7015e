"""Where a connection goes: while bytes are taken off it, and while it logs in."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import paramiko
import pytest

from orchestrator.errors import LostConnection, Unreachable
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.ssh import SshMachine
from tests.ssh.peers import frozen, listening, pid_of_session
from tests.ssh.server import Server
from tests.until import until

MUCH = 1 << 20
"""Bytes after whose taking the host is told that there is room again (more than a quarter of 2 MiB)."""


@pytest.mark.transport("fabric", reason="it is about how paramiko takes bytes off a channel")
def test_a_line_that_goes_while_bytes_are_taken_off_it_is_lost(sshd: Server) -> None:
    """The bytes are here already: it is the word to the host, that there is room again, which fails."""
    with connect(sshd.host()) as machine:
        assert isinstance(machine, SshMachine)
        session = pid_of_session(machine)
        with machine.stream(Script("x", f"head -c {2 * MUCH} /dev/zero; exec cat")) as stream:
            assert stream.read(1, timeout=60)
            until(lambda: len(stream._inner._channel.in_buffer) > MUCH)  # type: ignore[attr-defined]
            with frozen(session):  # it does not answer the end of the line with an end of its own
                machine._transport.sock.shutdown(socket.SHUT_WR)
                with pytest.raises(LostConnection, match="gpu01: the connection went"):
                    stream.read(MUCH, timeout=60)


class _CutsLogins(paramiko.ServerInterface):  # type: ignore[misc]
    """Ends the line as soon as somebody shows a key."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: Any) -> int:
        self._transport.sock.shutdown(socket.SHUT_RDWR)
        return int(paramiko.AUTH_FAILED)


@contextmanager
def cutting_logins(sshd: Server) -> Iterator[int]:
    """A server with the host's key, which is known, where every login is cut."""
    with listening() as sock, ExitStack() as closed:
        port = sock.getsockname()[1]
        kind, key = (sshd.folder / "host_ed25519.pub").read_text().split()[:2]
        sshd.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")

        def serve() -> None:
            with contextlib.suppress(OSError):  # the listener is closed
                while True:
                    transport = paramiko.Transport(sock.accept()[0])
                    closed.callback(transport.close)
                    transport.add_server_key(paramiko.PKey.from_path(sshd.folder / "host_ed25519"))
                    with contextlib.suppress(paramiko.SSHException, EOFError):
                        transport.start_server(server=_CutsLogins(transport))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield port
        sock.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_a_line_that_goes_during_the_login_is_no_refusal(sshd: Server) -> None:
    """Who takes it for one gives up on a log that could be followed on."""
    with cutting_logins(sshd) as port, pytest.raises(Unreachable) as caught:
        connect(replace(sshd.host(), port=port))
    assert "the connection went" in str(caught.value)
    assert "refused" not in str(caught.value)
