"""The way to a host: dead hosts, hosts that hang, servers that are full, jumps and proxies."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_DATA

from orchestrator.errors import ConfigError, HostError, LostConnection, NotPermitted, OrchError, Unreachable
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.dial import ProxySocket
from orchestrator.hosts.fleet import each
from orchestrator.hosts.ssh import SshMachine
from orchestrator.inventory import Host, Settings
from tests.ssh.server import Server, free_port, serving

QUICK = 1.0


def host(port: int, address: str = "127.0.0.1", timeout: float = QUICK) -> Host:
    return Host("gpu01", address, port=port, settings=Settings(timeout=timeout))


def unreachable(host: Host) -> str:
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        connect(host)
    assert caught.value.exit_code == 69
    assert time.monotonic() - began < host.settings.timeout + 5
    return str(caught.value)


@contextmanager
def listening(*, backlog: int = 8) -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(backlog)
        yield sock


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
        assert unreachable(host(sock.getsockname()[1])) == "gpu01: connection timed out after 1 s"


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-Frozen\r\n"], ids=["at all", "but its name"])
def test_a_host_that_takes_the_connection_and_says_nothing(sshd: Server, words: bytes) -> None:
    with answering(words) as port:
        said = unreachable(host(port))
    assert said == f"gpu01: no SSH answer within 1 s (port {port} takes the connection)"
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
        said = unreachable(host(sock.getsockname()[1]))
        assert "takes the connection and closes it at once. Is its sshd full (MaxStartups)" in said
        sock.shutdown(socket.SHUT_RDWR)


def test_an_sshd_that_freezes_during_the_login(sshd: Server) -> None:
    assert sshd.process
    os.kill(sshd.process.pid, signal.SIGSTOP)
    try:
        said = unreachable(replace(sshd.host(timeout=QUICK), port=sshd.port))
    finally:
        os.kill(sshd.process.pid, signal.SIGCONT)
    assert said == f"gpu01: no SSH answer within 1 s (port {sshd.port} takes the connection)"


def test_a_full_server_is_tried_again(sshd: Server) -> None:
    """MaxStartups 2:100:2 drops every third login that is under way; fabric alone loses most of ten."""
    sshd.stop()
    sshd.start("MaxStartups 2:100:2")
    hosts = [replace(sshd.host(), name=f"gpu{n:02}") for n in range(10)]
    outcomes = each(hosts, lambda m: m.run(Script("x", "echo hi")).text)
    assert [str(o.error) for o in outcomes if o.error] == []
    assert [o.value for o in outcomes] == ["hi\n"] * 10
    assert sshd.count("MaxStartups") > 0


def test_algorithms_that_do_not_meet(sshd: Server) -> None:
    sshd.stop()
    sshd.start("Ciphers chacha20-poly1305@openssh.com")
    with pytest.raises(HostError) as caught:
        connect(sshd.host())
    assert "have no algorithm in common" in str(caught.value)
    assert "OpenSSH" in str(caught.value)
    assert "\n" not in str(caught.value)


def pid_of_session(machine: SshMachine) -> int:
    """Return the pid of the sshd process that serves this connection."""
    return int(machine.run(Script("x", "echo $PPID")).out)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_peer_that_freezes_before_a_question(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        assert isinstance(machine, SshMachine)
        with frozen(pid_of_session(machine)):
            began = time.monotonic()
            with pytest.raises(HostError, match="gpu01: ps: no answer within 1 s"):
                machine.run(Script("ps", "echo hi"), deadline=1)
            assert time.monotonic() - began < 5


def test_a_peer_that_freezes_in_the_middle_of_a_stream(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        assert isinstance(machine, SshMachine)
        pid = pid_of_session(machine)
        machine._connection.transport.watch(0.1)  # instead of every 15 s
        with machine.stream(Command.of("sh", "-c", "echo hi; exec sleep 100")) as stream:
            assert stream.read(timeout=10) == b"hi\n"
            assert stream.read(timeout=1) is None  # quiet, yet alive
            with frozen(pid), pytest.raises(LostConnection, match="gpu01: the connection went"):
                assert stream.read(timeout=20) is not None


def test_a_peer_that_dies(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        assert isinstance(machine, SshMachine)
        pid = pid_of_session(machine)
        with machine.stream(Command.of("sleep", "100")) as stream:
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(LostConnection, match="gpu01: the connection went"):
                stream.read(timeout=20)
            assert stream.status() is None
        with pytest.raises(LostConnection, match="gpu01: ps: the connection went") as caught:
            machine.run(Script("ps", "echo hi"))
        assert caught.value.exit_code == 69


def test_a_peer_that_dies_under_a_question(sshd: Server) -> None:
    with connect(sshd.host()) as machine, pytest.raises(LostConnection, match="ps: the connection went"):
        machine.run(Script("ps", "kill -9 $PPID; sleep 100"), deadline=20)


def test_one_connection_and_one_exec_for_a_question(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        machine.run(Script("x", "echo hi"))
    assert sshd.count("Accepted publickey") == 1
    assert sshd.count("Starting session: command") == 1


def test_a_host_that_opens_no_more_sessions(sshd: Server) -> None:
    sshd.stop()
    sshd.start("MaxSessions 1")
    with connect(sshd.host()) as machine, machine.stream(Command.of("cat")):
        with pytest.raises(HostError, match="gpu01: ps: the host opens no more sessions on a connection"):
            machine.run(Script("ps", "echo hi"))


def test_a_host_that_forbids_forwarding(sshd: Server) -> None:
    sshd.stop()
    sshd.start("AllowTcpForwarding no")
    with connect(sshd.host()) as machine:
        with pytest.raises(HostError, match="gpu01: its sshd forbids forwarding"):
            machine.tunnel(sshd.port)
        assert machine.run(Script("x", "echo on")).out == b"on\n"


@pytest.fixture
def lab(sshd: Server, tmp_path: Path) -> Iterator[tuple[Server, Server, Server]]:
    """gpu01 and two bastions, all known; ssh_config names them."""
    with serving(tmp_path / "one") as one, serving(tmp_path / "two") as two:
        text = "StrictHostKeyChecking yes\n"
        for name, server in (("one", one), ("two", two), ("gpu", sshd)):
            server.trust(path=sshd.known_hosts if server is not sshd else tmp_path / "already")
            text += f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n IdentityFile {server.login}\n"
        (sshd.client / ".ssh" / "config").write_text(text)
        yield sshd, one, two


def config(sshd: Server, text: str) -> None:
    path = sshd.client / ".ssh" / "config"
    path.write_text(text + "StrictHost" + path.read_text().partition("StrictHost")[2])


def arrives(name: str = "gpu") -> None:
    with connect(Host("gpu01", name)) as machine:
        assert machine.run(Script("x", "echo hi")).out == b"hi\n"


def logins(*servers: Server) -> list[int]:
    return [server.count("Accepted publickey") for server in servers]


def test_one_jump(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], "Host gpu\n ProxyJump one\n")
    arrives()
    assert logins(*lab) == [1, 1, 0]


def test_a_chain_of_jumps_and_a_jump_that_has_its_own(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], f"Host gpu\n ProxyJump {getpass.getuser()}@one,two\n")
    arrives()
    assert logins(*lab) == [1, 1, 1]
    config(lab[0], "Host gpu\n ProxyJump one\nHost one\n ProxyJump two\nHost two\n ProxyJump none\n")
    arrives()
    assert logins(*lab) == [2, 2, 2]


def test_a_jump_given_by_the_inventory(lab: tuple[Server, Server, Server]) -> None:
    with connect(Host("gpu01", "gpu", common_args=("-o", "ProxyJump=one"))) as machine:
        assert machine.run(Script("x", "echo hi")).out == b"hi\n"
    assert logins(*lab) == [1, 1, 0]


def test_a_jump_whose_key_is_unknown_is_refused_too(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], "Host gpu\n ProxyJump one\n")
    lines = lab[0].known_hosts.read_text().splitlines(keepends=True)
    lab[0].known_hosts.write_text("".join(x for x in lines if f":{lab[1].port} " not in x))
    with pytest.raises(NotPermitted, match=r"gpu01: through one: its host key is unknown"):
        arrives()
    assert logins(*lab) == [0, 0, 0]


def test_a_jump_that_is_dead_and_one_that_forbids_forwarding(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], "Host gpu\n ProxyJump one\n")
    lab[1].stop()
    with pytest.raises(Unreachable, match=rf"gpu01: through one: connection refused \(port {lab[1].port}\)"):
        arrives()
    lab[1].start("AllowTcpForwarding no")
    with pytest.raises(Unreachable, match=r"gpu01: through one: its sshd forbids forwarding"):
        arrives()
    lab[1].stop()
    lab[1].start()
    lab[0].stop()
    with pytest.raises(Unreachable, match="gpu01") as caught:
        arrives()
    assert f"nothing answers at 127.0.0.1:{lab[0].port}" in str(caught.value)


def test_jumps_in_a_circle(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], "Host gpu\n ProxyJump one\nHost one\n ProxyJump two\nHost two\n ProxyJump one\n")
    with pytest.raises(ConfigError, match="gpu01: ProxyJump leads round in a circle: one -> two -> one"):
        arrives()


def test_hosts_behind_one_jump_share_its_connection(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], "Host gpu\n ProxyJump one\nHost one\n ProxyJump two\n")
    lab[1].stop()
    lab[1].start("MaxStartups 1")
    hosts = [Host(f"gpu{n:02}", "gpu") for n in range(12)]
    for _ in range(2):
        outcomes = each(hosts, lambda m: m.run(Script("x", "sleep 0.3; echo hi")).text)
        assert [str(o.error) for o in outcomes if o.error] == []
    assert logins(*lab) == [24, 2, 2]


def test_a_jump_that_died_is_opened_again(lab: tuple[Server, Server, Server]) -> None:
    config(lab[0], "Host gpu\n ProxyJump one\n")
    with connect(Host("gpu01", "gpu")) as machine:
        assert isinstance(machine, SshMachine)
        assert machine._behind
        os.kill(pid_of_session(machine._behind.machine), signal.SIGKILL)
        with pytest.raises(LostConnection):
            machine.run(Script("x", "echo hi"))
        arrives()
    assert logins(*lab) == [2, 2, 0]


def test_a_dead_jump_costs_its_timeout_once(lab: tuple[Server, Server, Server]) -> None:
    with listening() as silent:
        port = silent.getsockname()[1]
        config(lab[0], f"Host gpu\n ProxyJump dead\nHost dead\n HostName 127.0.0.1\n Port {port}\n")
        hosts = [Host(f"gpu{n:02}", "gpu", settings=Settings(timeout=2 * QUICK)) for n in range(8)]
        began = time.monotonic()
        outcomes = each(hosts, lambda m: None)
    assert time.monotonic() - began < 8 * 2 * QUICK / 2
    assert [str(o.error) for o in outcomes] == [
        f"{h.name}: through dead: no SSH answer within 2 s (port {port} takes the connection)" for h in hosts
    ]


def test_a_proxy_command_and_its_end(lab: tuple[Server, Server, Server], tmp_path: Path) -> None:
    relay = tmp_path / "relay"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "print(os.getpid(), file=open(sys.argv[1], 'w'))\n"
        "peer = socket.create_connection((sys.argv[2], int(sys.argv[3])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): peer.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := peer.recv(65536): os.write(1, data)\n"
    )
    config(lab[0], f"Host gpu\n ProxyCommand python3 {relay} '{tmp_path}/p i d' %h %p\n")
    arrives()
    assert logins(*lab) == [1, 0, 0]
    pid = int((tmp_path / "p i d").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("false", "exit status 1"),
        ("no-such-program-here", ".*not found"),
        ("sh -c 'echo no >&2; exit 1'", "no"),
    ],
)
def test_a_proxy_command_that_fails(lab: tuple[Server, Server, Server], command: str, said: str) -> None:
    config(lab[0], f"Host gpu\n ProxyCommand {command} %h\n")
    with pytest.raises(Unreachable, match=f"gpu01: its ProxyCommand ended: {said}"):
        connect(Host("gpu01", "gpu", settings=Settings(timeout=QUICK)))


def test_a_proxy_command_is_ended_with_its_children() -> None:
    proxy = ProxySocket("sh -c 'sleep 100 & echo $!; wait'")
    pid = int(proxy.recv(100))
    proxy.close()
    until = time.monotonic() + 10
    while time.monotonic() < until and Path(f"/proc/{pid}").exists():
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_broken_hosts_hide_no_good_one(sshd: Server, tmp_path: Path) -> None:
    """Each broken in another way; the others are done, in order, in the time of the deadline."""
    with listening() as silent:
        good = [replace(sshd.host(timeout=QUICK), name=f"good{n}") for n in range(12)]
        broken: list[Host] = [
            host(free_port()),
            host(22, "no-such-host.invalid"),
            host(silent.getsockname()[1]),
            sshd.host(key=tmp_path / "missing"),
            replace(sshd.host(timeout=QUICK), address="localhost"),  # its key is known as 127.0.0.1 only
        ]
        hosts = [h for pair in zip(good, broken, strict=False) for h in pair] + good[len(broken) :]
        began = time.monotonic()
        outcomes = each(hosts, lambda m: m.run(Script("x", "echo hi")).text)
    assert time.monotonic() - began < 30
    assert [o.host for o in outcomes] == hosts
    assert [o.value for o in outcomes if o.host in good] == ["hi\n"] * len(good)
    errors: list[OrchError] = [o.error for o in outcomes if o.error]
    assert [type(e) for e in errors] == [Unreachable, Unreachable, Unreachable, ConfigError, NotPermitted]


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
    until = time.monotonic() + 10
    while count() > before and time.monotonic() < until:
        time.sleep(0.02)
    assert count() <= before


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
            until = time.monotonic() + 20
            while not channel.closed:
                assert time.monotonic() < until
                time.sleep(0.01)
            message = paramiko.Message()
            message.add_byte(cMSG_CHANNEL_DATA)
            message.add_int(number)
            message.add_string(b"too late")
            transport._send_user_message(message)
            assert machine.run(Script("x", "echo on")).out == b"on\n"
