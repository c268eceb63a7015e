"""The way to a host: dead hosts, hosts that hang, servers that are full, and many at once."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, HostError, Unreachable
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.fleet import each
from orchestrator.inventory import Host, Settings
from tests.ssh.peers import QUICK, listening
from tests.ssh.server import Server, free_port
from tests.until import until


def host(port: int, address: str = "127.0.0.1", timeout: float = QUICK) -> Host:
    return Host("gpu01", address, port=port, settings=Settings(timeout=timeout))


def unreachable(host: Host) -> str:
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        connect(host)
    assert caught.value.exit_code == 69
    assert time.monotonic() - began < host.settings.timeout + 20
    return str(caught.value)


def test_nobody_listens() -> None:
    port = free_port()
    assert unreachable(host(port)) == f"gpu01: connection refused (port {port})"


def test_no_such_name() -> None:
    said = unreachable(host(22, "no-such-host.invalid", timeout=10))
    assert said == "gpu01: no such host name: no-such-host.invalid"
    assert "no such host name" in unreachable(host(22, "a" * 70 + ".invalid", timeout=10))


def test_a_dead_host(sshd: Server) -> None:
    """A listener whose queue is full answers no further SYN, as a host that is switched off."""
    with listening(backlog=0) as sock, ExitStack() as stack:
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        time.sleep(0.1)
        assert unreachable(host(sock.getsockname()[1])) == "gpu01: connection timed out after 2 s"


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-Frozen\r\n"], ids=["at all", "but its name"])
def test_a_host_that_takes_the_connection_and_says_nothing(sshd: Server, words: bytes) -> None:
    with answering(words) as port:
        said = unreachable(host(port))
    assert said == f"gpu01: no SSH answer within 2 s (port {port} takes the connection)"
    assert [t for t in threading.enumerate() if not t.daemon] == [threading.main_thread()]


@contextmanager
def answering(words: bytes) -> Iterator[int]:
    """Listen, say some words to everyone who comes, and nothing more."""
    with listening() as sock, ExitStack() as peers:

        def answer() -> None:
            while True:
                try:
                    peer = peers.enter_context(sock.accept()[0])
                except OSError:
                    return
                peer.sendall(words)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield int(sock.getsockname()[1])
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_port_where_something_else_answers(sshd: Server) -> None:
    with listening() as sock:

        def answer() -> None:
            while True:
                try:
                    peer, _ = sock.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        said = unreachable(host(sock.getsockname()[1], timeout=30))
        assert "takes the connection and closes it at once. Is its sshd full (MaxStartups)" in said
        sock.shutdown(socket.SHUT_RDWR)


def test_an_sshd_that_freezes_during_the_login(sshd: Server) -> None:
    assert sshd.process
    os.kill(sshd.process.pid, signal.SIGSTOP)
    try:
        said = unreachable(replace(sshd.host(timeout=QUICK), port=sshd.port))
    finally:
        os.kill(sshd.process.pid, signal.SIGCONT)
    assert said == f"gpu01: no SSH answer within 2 s (port {sshd.port} takes the connection)"


def test_a_full_server_is_tried_again(sshd: Server) -> None:
    """MaxStartups 2:100:2 drops every third login that is under way; fabric alone loses most of ten."""
    sshd.stop()
    sshd.start("MaxStartups 2:100:2")
    hosts = [replace(sshd.host(timeout=30), name=f"gpu{n:02}") for n in range(10)]
    outcomes = each(hosts, lambda m: m.run(Script("x", "echo hi")).text)
    assert [str(o.error) for o in outcomes if o.error] == []
    assert [o.value for o in outcomes] == ["hi\n"] * 10
    assert sshd.count("MaxStartups") > 0


@pytest.mark.transport("fabric", reason="ssh itself knows this cipher")
def test_algorithms_that_do_not_meet(sshd: Server) -> None:
    sshd.stop()
    sshd.start("Ciphers chacha20-poly1305@openssh.com")
    with pytest.raises(HostError) as caught:
        connect(sshd.host())
    assert "have no algorithm in common" in str(caught.value)
    assert "OpenSSH" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_hosts_hide_no_good_one(sshd: Server, tmp_path: Path) -> None:
    """Each broken in another way; the others are done, in order, in the time of the deadline."""
    with listening() as silent:
        good = [replace(sshd.host(), name=f"good{n}") for n in range(12)]
        broken: list[Host] = [
            host(free_port()),
            host(22, "no-such-host.invalid"),
            host(silent.getsockname()[1]),
            sshd.host(key=tmp_path / "missing"),
            replace(sshd.host(), address="localhost"),  # its key is known as 127.0.0.1 only
        ]
        hosts = [h for pair in zip(good, broken, strict=False) for h in pair] + good[len(broken) :]
        began = time.monotonic()
        outcomes = each(hosts, lambda m: m.run(Script("x", "echo hi")).text)
    assert time.monotonic() - began < 60
    assert [o.host for o in outcomes] == hosts
    assert [o.value for o in outcomes if o.host in good] == ["hi\n"] * len(good)
    assert [o.error.exit_code for o in outcomes if o.error] == [69, 69, 69, 78, 77]


def test_nothing_is_left_open(sshd: Server) -> None:
    def count() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/dev/fd"))

    each([sshd.host()], lambda m: m.run(Script("x", "true")))
    before = count()
    for _ in range(3):
        with connect(sshd.host()) as machine:
            machine.run(Script("x", "true"))
            machine.put(b"x", "~/x")
            machine.tunnel(sshd.port).close()
        with pytest.raises(ConfigError):
            connect(sshd.host(key=sshd.folder))
    until(lambda: count() <= before, "the end of all that was open")
