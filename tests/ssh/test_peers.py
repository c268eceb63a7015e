"""Connections that stand, and servers that freeze, die, or say no on them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_DATA

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts import openssh_master
from orchestrator.hosts.base import Stream
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.ssh import SshMachine
from tests.ssh.peers import frozen, listening, pid_of_session
from tests.ssh.server import Server
from tests.until import until


def test_a_peer_that_freezes_before_a_question(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        with frozen(pid_of_session(machine)):
            began = time.monotonic()
            with pytest.raises(HostError, match="gpu01: ps: no answer within 1 s"):
                machine.run(Script("ps", "echo hi"), deadline=1)
            assert time.monotonic() - began < 30


def test_a_peer_that_freezes_in_the_middle_of_a_stream(sshd: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssh_master, "_ALIVE", ("ServerAliveInterval=1", "ServerAliveCountMax=2"))
    with connect(sshd.host()) as machine:
        pid = pid_of_session(machine)
        if isinstance(machine, SshMachine):
            machine._connection.transport.watch(0.5)  # instead of every 15 s
        with machine.stream(Command.of("sh", "-c", "echo hi; exec sleep 100")) as stream:
            assert stream.read(timeout=60) == b"hi\n"
            assert stream.read(timeout=1) is None  # quiet, yet alive
            with frozen(pid), pytest.raises(LostConnection, match="gpu01: the connection went"):
                assert stream.read(timeout=60) is not None


SLEEPS = """\
import os, sys
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.inventory import Host
with connect(Host("gpu01", "127.0.0.1", port=int(sys.argv[1]), key=sys.argv[2])) as machine:
    machine._connection.transport.watch(0.2)
    print(machine.run(Script("x", "echo up")).text, end="", flush=True)
    input()
    print(machine.run(Script("x", "echo hi")).text, end="")
"""


@pytest.mark.transport("fabric", reason="ssh counts its keepalives itself")
def test_a_caller_that_stood_still_loses_no_peer_that_lives(sshd: Server) -> None:
    """A laptop that was asleep for longer than the peer may be silent."""
    words = [sys.executable, "-c", SLEEPS, str(sshd.port), str(sshd.login)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[2]) as caller:
        assert caller.stdin
        assert caller.stdout
        assert caller.stdout.readline() == "up\n"
        with frozen(caller.pid):
            time.sleep(1.5)
        assert not select.select([caller.stdout], [], [], 0.5)[0], "it has gone on, and asked"
        said, _ = caller.communicate("\n", timeout=60)
    assert (caller.returncode, said) == (0, "hi\n")


def write_on(stream: Stream, times: int, *, every: float) -> None:
    for _ in range(times):
        stream.write(b"alive\n")
        time.sleep(every)


@pytest.mark.transport("fabric", reason="ssh counts its keepalives itself")
def test_a_caller_that_only_writes_loses_no_peer_that_listens(sshd: Server) -> None:
    """By its own keepalive paramiko would not ask for a sign of life, and such a peer gives none."""
    with connect(sshd.host()) as machine, machine.stream(Script("x", "exec cat > /dev/null")) as stream:
        assert isinstance(machine, SshMachine)
        machine._connection.transport.watch(0.5)
        write_on(stream, 10, every=0.25)
        assert stream.read(timeout=1.5) is None, "quiet, and asked for a sign of life"
        assert machine.run(Script("x", "echo hi")).out == b"hi\n"


@pytest.mark.transport("fabric", reason="ssh sends its keepalives whatever is written")
def test_a_peer_that_freezes_while_something_is_written(sshd: Server) -> None:
    with connect(sshd.host()) as machine, machine.stream(Script("x", "exec cat > /dev/null")) as stream:
        assert isinstance(machine, SshMachine)
        pid = pid_of_session(machine)
        machine._connection.transport.watch(0.5)
        with frozen(pid), pytest.raises(LostConnection, match=r"gpu01: the connection, .* went"):
            write_on(stream, 400, every=0.1)


def test_a_peer_that_dies(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        pid = pid_of_session(machine)
        with machine.stream(Command.of("sleep", "100")) as stream:
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(LostConnection, match="gpu01: the connection went"):
                stream.read(timeout=60)
            assert stream.status() is None
        with pytest.raises(LostConnection, match="gpu01: ps: the connection went") as caught:
            machine.run(Script("ps", "echo hi"))
        assert caught.value.exit_code == 69


def test_a_connection_that_is_closed_answers_no_more(sshd: Server) -> None:
    machine = connect(sshd.host())
    machine.close()
    machine.close()
    with pytest.raises(LostConnection, match="gpu01: ps: the connection went"):
        machine.run(Script("ps", "echo hi"))
    with pytest.raises(LostConnection):
        machine.stream(Command.of("cat"))
    with pytest.raises(LostConnection):
        machine.tunnel(sshd.port)


def test_a_peer_that_dies_under_a_question(sshd: Server) -> None:
    with connect(sshd.host()) as machine, pytest.raises(LostConnection, match="ps: the connection went"):
        machine.run(Script("ps", "kill -9 $PPID; sleep 100"), deadline=60)


def test_one_connection_and_one_exec_for_a_question(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        machine.run(Script("x", "echo hi"))
    assert sshd.count("Accepted publickey") == 1
    assert sshd.count("Starting session: command") == 1


def test_a_host_that_forbids_forwarding(sshd: Server) -> None:
    sshd.stop()
    sshd.start("AllowTcpForwarding no")
    with connect(sshd.host()) as machine:
        with pytest.raises(HostError, match="gpu01: its sshd forbids forwarding"):
            machine.tunnel(sshd.port)
        assert machine.run(Script("x", "echo on")).out == b"on\n"


@pytest.mark.transport("fabric", reason="it is paramiko that sends such data")
def test_data_that_comes_too_late_for_its_channel_does_not_end_the_connection(sshd: Server) -> None:
    """OpenSSH disconnects for it, and paramiko sends it when two threads meet at the end of a channel."""
    with connect(sshd.host()) as machine:
        assert isinstance(machine, SshMachine)
        transport = machine._connection.transport
        for _ in range(3):
            channel = transport.open_session()
            channel.exec_command("cat")
            channel.sendall(b"in time")  # although a channel of this number has been closed before
            assert channel.recv(7) == b"in time"
            number = channel.remote_chanid
            channel.shutdown_write()
            until(lambda: channel.closed, "the end of the channel")
            message = paramiko.Message()
            message.add_byte(cMSG_CHANNEL_DATA)
            message.add_int(number)
            message.add_string(b"too late")
            transport._send_user_message(message)
            assert machine.run(Script("x", "echo on")).out == b"on\n"


class Deaf(paramiko.ServerInterface):  # type: ignore[misc]
    """A server that opens a channel and never answers what is asked on it."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: object) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: object, command: bytes) -> bool:
        self.over.wait(30)
        return False


def test_a_server_that_never_answers_an_exec(sshd: Server) -> None:
    """paramiko itself would wait for ever."""
    server = Deaf()
    with listening() as sock:
        port = sock.getsockname()[1]
        kind, key = (sshd.folder / "host_ed25519.pub").read_text().split()[:2]
        sshd.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")

        def serve() -> None:
            peer, _ = sock.accept()
            transport = paramiko.Transport(peer)
            transport.add_server_key(paramiko.PKey.from_path(sshd.folder / "host_ed25519"))
            transport.start_server(server=server)
            server.over.wait(30)
            transport.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with connect(replace(sshd.host(), port=port)) as machine:
                began = time.monotonic()
                with pytest.raises(HostError, match=r"gpu01: ps: no answer within 0\.5 s"):
                    machine.run(Script("ps", "echo hi"), deadline=0.5)
                assert time.monotonic() - began < 25  # the server gives up after 30 s
        finally:
            server.over.set()
            thread.join()
