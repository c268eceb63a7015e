"""Hosts behind other hosts: ProxyJump and ProxyCommand."""

from __future__ import annotations

import getpass
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, LostConnection, NotPermitted, Unreachable
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.dial import ProxySocket
from orchestrator.hosts.fleet import each
from orchestrator.inventory import Host, Settings
from tests.ssh.peers import QUICK, ends, jump_of, listening, pid_of_session
from tests.ssh.server import Server, serving


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
        os.kill(pid_of_session(jump_of(machine)), signal.SIGKILL)
        with pytest.raises(LostConnection):
            machine.run(Script("x", "echo hi"))
        arrives()
    assert logins(*lab) == [2, 2, 0]


def test_a_dead_jump_costs_its_timeout_once(lab: tuple[Server, Server, Server]) -> None:
    with listening() as silent:
        port = silent.getsockname()[1]
        config(lab[0], f"Host gpu\n ProxyJump dead\nHost dead\n HostName 127.0.0.1\n Port {port}\n")
        hosts = [Host(f"gpu{n:02}", "gpu", settings=Settings(timeout=QUICK)) for n in range(8)]
        began = time.monotonic()
        outcomes = each(hosts, lambda m: None)
    assert time.monotonic() - began < 7 * QUICK
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
    ends(int((tmp_path / "p i d").read_text()))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("false", "exit status 1|it said nothing"),
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
    ends(pid)
