"""Hosts that open few sessions on a connection, or none (MaxSessions)."""

from __future__ import annotations

import io

import pytest

from orchestrator.errors import HostError
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from tests.ssh.leftovers import nothing_left
from tests.ssh.peers import listening
from tests.ssh.server import Server
from tests.ssh.test_accounts import restart

HI = Script("x", "echo hi")


def test_one_question_after_the_other_stays_on_one_connection(sshd: Server) -> None:
    """Although the host counts a session for a moment after its end."""
    restart(sshd, "MaxSessions 1")
    with connect(sshd.host()) as machine:
        for _ in range(20):
            assert machine.run(HI).out == b"hi\n"
        machine.put(b"x", "~/x")
        machine.get("~/x", io.BytesIO())
    assert sshd.count("Accepted publickey") == 1


def test_what_needs_more_sessions_at_once_gets_another_connection(sshd: Server) -> None:
    restart(sshd, "MaxSessions 1")
    with nothing_left(lambda: connect(sshd.host()).close()):
        before = sshd.count("Accepted publickey")
        with connect(sshd.host()) as machine, machine.stream(Command.of("cat")) as first:
            for _ in range(3):
                assert machine.run(HI).out == b"hi\n"
            with machine.stream(Command.of("cat")) as second:
                assert machine.run(HI).out == b"hi\n"
                for stream in (first, second):
                    stream.write(b"one\n")
                    assert stream.read(timeout=60) == b"one\n"
                machine.put(b"x", "~/x")
        assert sshd.count("Accepted publickey") - before == 3


def test_a_way_to_a_port_is_no_session(sshd: Server) -> None:
    restart(sshd, "MaxSessions 1")
    with listening(backlog=12) as sock, connect(sshd.host()) as machine, machine.stream(Command.of("cat")):
        tunnels = [machine.tunnel(sock.getsockname()[1]) for _ in range(12)]
        for _ in tunnels:
            peer, _ = sock.accept()
            with peer:
                peer.sendall(b"hi")
        for tunnel in tunnels:
            tunnel.settimeout(60)
            assert tunnel.recv(2) == b"hi"
            tunnel.close()
    assert sshd.count("Accepted publickey") == 1


def test_a_host_that_opens_no_session_at_all(sshd: Server) -> None:
    restart(sshd, "MaxSessions 0")
    with connect(sshd.host()) as machine:
        with pytest.raises(HostError, match="gpu01: ps: the host opens no more sessions on a connection"):
            machine.run(Script("ps", "echo hi"))
        with pytest.raises(HostError, match="gpu01: stream: the host opens no more sessions"):
            machine.stream(Command.of("cat"))


def test_a_host_that_takes_no_second_login(sshd: Server) -> None:
    """Both reasons are told in one line."""
    restart(sshd, "MaxSessions 1")
    with connect(sshd.host()) as machine, machine.stream(Command.of("cat")):
        sshd.stop()
        with pytest.raises(HostError) as caught:
            machine.run(Script("ps", "echo hi"))
    said = str(caught.value)
    assert said.startswith(
        "gpu01: ps: the host opens no more sessions on a connection (MaxSessions in sshd_config), "
    )
    assert f"nor another connection: connection refused (port {sshd.port})" in said
