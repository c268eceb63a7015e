"""Many hosts at once: some of them broken, all behind one bastion, servers at their limits."""

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

from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.fleet import Outcome, each
from orchestrator.inventory import Host, Settings
from tests.ssh.leftovers import nothing_left
from tests.ssh.oracle import configure
from tests.ssh.peers import listening
from tests.ssh.server import Server, free_port, keygen, serving

SECONDS = 4.0
"""To connect, and for an answer."""

HI = Script("x", "echo hi")


@contextmanager
def switched_off() -> Iterator[int]:
    """A port that takes no further SYN, as a host that is switched off."""
    with listening(backlog=0) as sock, ExitStack() as stack:
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        yield int(sock.getsockname()[1])


@contextmanager
def freezing(folder: Path) -> Iterator[Server]:
    """A server whose sessions stand still as soon as something is asked."""
    with serving(folder) as server:
        server.stop()
        server.start("ForceCommand echo $PPID >> ~/frozen; kill -STOP $PPID; exec sleep 100")
        try:
            yield server
        finally:
            for pid in (server.home / "frozen").read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def address(number: int) -> str:
    return f"127.0.1.{number}"


@pytest.fixture
def crowd(sshd: Server, tmp_path: Path) -> Iterator[list[Host]]:
    """64 hosts of one sshd with its usual limits; 13, 24, 35, 46 and 57 are each broken in another way."""
    sshd.stop()
    sshd.start("ListenAddress 0.0.0.0")
    key, other = sshd.known_hosts.read_text().partition(" ")[2], keygen(tmp_path / "other")
    changed = f"[{address(46)}]:{sshd.port}"
    sshd.known_hosts.write_text(
        f"[127.0.1.*]:{sshd.port},!{changed} {key}{changed} {other.with_suffix('.pub').read_text()}"
    )
    plain = sshd.host(timeout=30.0)
    hurried = sshd.host(timeout=SECONDS)
    hosts = [replace(plain, name=f"gpu{n:02}", address=address(n)) for n in range(1, 65)]
    with switched_off() as off, freezing(tmp_path / "frozen") as frozen:
        frozen.trust(path=sshd.known_hosts)
        hosts[12] = replace(hurried, name="gpu13", port=off)
        hosts[23] = replace(plain, name="gpu24", port=free_port())
        hosts[34] = replace(hosts[34], key=str(other))
        hosts[56] = replace(frozen.host(timeout=30.0), name="gpu57")
        yield hosts


def test_sixty_four_hosts_of_which_five_are_broken(crowd: list[Host], sshd: Server) -> None:
    """The good ones are done, in the inventory's order, and nobody waits for more than one deadline."""
    came: dict[str, float] = {}

    def ask(machine: Machine) -> str:
        return machine.run(HI, deadline=SECONDS if machine.host.name == "gpu57" else 60).text

    def told(outcome: Outcome[str]) -> None:
        came[outcome.host.name] = time.monotonic()

    with nothing_left(lambda: connect(crowd[0]).close()):
        outcomes = each(crowd, ask, told=told)
        ended = time.monotonic()
    errors = {o.host.name: o.error for o in outcomes if o.error}
    assert [o.host.name for o in outcomes] == [h.name for h in crowd]
    assert [o.value for o in outcomes if not o.error] == ["hi\n"] * 59
    assert list(errors) == ["gpu13", "gpu24", "gpu35", "gpu46", "gpu57"]
    assert [error.exit_code for error in errors.values()] == [69, 69, 77, 77, 1]
    said = ("timed out", "connection refused", "login refused", "CHANGED", "no answer")
    assert all(text in str(error) for text, error in zip(said, errors.values(), strict=True))
    assert ended - max(came[h.name] for h in crowd if h.name not in errors) < 2 * SECONDS + 15
    assert sshd.count("Accepted publickey") == 59 + 1


@pytest.fixture
def bastion(sshd: Server, tmp_path: Path) -> Iterator[Server]:
    """A bastion that opens one session and one login at a time; gpu is behind it."""
    with serving(tmp_path / "bastion") as bastion:
        bastion.stop()
        bastion.start("MaxSessions 1", "MaxStartups 1")
        bastion.trust(path=sshd.known_hosts)
        login = f" Port {bastion.port}\n IdentityFile {bastion.login}\n IdentitiesOnly yes\n"
        configure(sshd, f"Host bastion\n HostName 127.0.0.1\n{login}Host gpu*\n ProxyJump bastion\n")
        yield bastion


def test_twenty_hosts_share_a_bastion_at_its_limits(bastion: Server, sshd: Server) -> None:
    """All at the same time: a way to a host is no session, so MaxSessions does not count it."""
    hosts = [replace(sshd.host(timeout=60.0), name=f"gpu{n:02}", address="gpu", port=None) for n in range(20)]
    hosts = [replace(h, key=None) for h in hosts]
    together = threading.Barrier(20, timeout=120)

    def work(machine: Machine) -> str:
        together.wait()
        return machine.run(HI).text

    with nothing_left(lambda: each(hosts[:1], lambda m: m.run(HI))):
        before = bastion.count("Accepted publickey")
        outcomes = each(hosts, work, parallel=20)
    assert [str(o.error) for o in outcomes if o.error] == []
    assert [o.value for o in outcomes] == ["hi\n"] * 20
    assert bastion.count("Accepted publickey") - before == 1


def test_twenty_hosts_by_a_proxy_command_through_a_full_bastion(sshd: Server, tmp_path: Path) -> None:
    """Each has a connection of its own to the bastion, which drops some: they come again."""
    with serving(tmp_path / "bastion", "MaxStartups 3:100:3") as bastion:
        bastion.trust(path=sshd.known_hosts)
        login = f" Port {bastion.port}\n IdentityFile {bastion.login}\n IdentitiesOnly yes\n"
        command = f"ssh -F {sshd.client}/.ssh/config -W %h:%p bastion"
        jump = f"Host bastion\n HostName 127.0.0.1\n{login} ProxyCommand none\n"
        configure(sshd, f"{jump}Host gpu*\n ProxyCommand {command}\n")
        hosts = [Host(f"gpu{n:02}", "gpu", settings=Settings(timeout=120)) for n in range(20)]
        with nothing_left(lambda: each(hosts[:1], lambda m: m.run(HI))):
            outcomes = each(hosts, lambda m: m.run(HI).text, parallel=20)
        assert [str(o.error) for o in outcomes if o.error] == []
        assert bastion.count("MaxStartups") > 0
