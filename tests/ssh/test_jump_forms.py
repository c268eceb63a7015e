"""Ways through other hosts as ~/.ssh/config may write them, with the ssh program as the judge."""

from __future__ import annotations

import getpass
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, Unreachable
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.fleet import each
from orchestrator.inventory import Host, Settings
from tests.ssh.leftovers import nothing_left
from tests.ssh.oracle import configure, judged_before, orch_says, ssh_arrives
from tests.ssh.peers import frozen, jump_of, pid_of_session
from tests.ssh.server import Server, serving

ME = getpass.getuser()
HI = Script("x", "echo hi")


@dataclass
class Lab:
    """gpu and two bastions, all known."""

    gpu: Server
    one: Server
    two: Server

    def config(self, text: str) -> None:
        """Write ~/.ssh/config: `text`, then how the bastions are reached."""
        for name, server in (("one", self.one), ("two", self.two)):
            text += f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n IdentityFile {server.login}\n"
            text += " IdentitiesOnly yes\n"
        configure(self.gpu, text)

    @property
    def logins(self) -> list[int]:
        return [s.count("Accepted publickey") for s in (self.gpu, self.one, self.two)]


@pytest.fixture
def lab(sshd: Server, tmp_path: Path) -> Iterator[Lab]:
    with serving(tmp_path / "one") as one, serving(tmp_path / "two") as two:
        for server in (one, two):
            server.trust(path=sshd.known_hosts)
        yield Lab(sshd, one, two)


@pytest.mark.parametrize(
    ("text", "through"),
    [
        ("Host gpu\n ProxyJump one", [1, 0]),
        ("Host gpu\n ProxyJump {me}@127.0.0.1:{one}\nMatch host 127.0.0.1\n IdentityFile {key}", [1, 0]),
        ("Host gpu\n ProxyJump ssh://{me}@one:{one}", [1, 0]),
        ("Host gpu\n ProxyJump one,two", [1, 1]),
        ("Host gpu\n ProxyJump two\nHost two\n ProxyJump one", [1, 1]),
        ("Host gpu\n ProxyJump one,two\nHost two\n ProxyJump three", [1, 1]),
        ("Host gpu\n ProxyJump none\nHost *\n ProxyJump one", [0, 0]),
        ("Host * !one\n ProxyJump one", [1, 0]),
        ("Match !host one exec true\n ProxyJump one", [1, 0]),
        ("Host gpu\n ProxyCommand none\nHost *\n ProxyJump three", [0, 0]),
        ("Host gpu\n ProxyCommand ssh -F {config} -W %h:%p one", [1, 0]),
        ("Host gpu\n ProxyCommand ssh -F {config} -J two -W '[%h]:%p' one", [1, 1]),
    ],
)
def test_the_way_is_that_of_ssh(lab: Lab, text: str, through: list[int]) -> None:
    config = lab.gpu.client / ".ssh" / "config"
    lab.config(text.format(me=ME, one=lab.one.port, key=lab.one.login, config=config) + "\n")
    if not judged_before():
        assert ssh_arrives(lab.gpu)
        assert lab.logins == [1, *through]
    before = lab.logins
    with nothing_left(lambda: None):
        assert orch_says() == "hi"
    assert lab.logins == [a + b for a, b in zip(before, [1, *through], strict=True)]


def test_hosts_behind_a_chain_share_it_and_close_it(lab: Lab) -> None:
    lab.config("Host gpu\n ProxyJump one,two\n")
    hosts = [Host(f"gpu{n:02}", "gpu", settings=Settings(timeout=60)) for n in range(6)]
    with nothing_left(orch_says):
        outcomes = each(hosts, lambda m: m.run(Script("x", "sleep 0.5; echo hi")).text)
        assert [o.value for o in outcomes] == ["hi\n"] * 6
    assert lab.logins == [7, 2, 2]


def test_a_bastion_that_dies_or_stands_still_under_a_stream(lab: Lab) -> None:
    lab.config("Host gpu\n ProxyJump one\n")
    with connect(Host("gpu01", "gpu")) as machine:
        pid = pid_of_session(jump_of(machine))
        with frozen(pid), pytest.raises(HostError, match="gpu01: ps: no answer within 1 s"):
            machine.run(Script("ps", "echo hi"), deadline=1)
    with connect(Host("gpu01", "gpu")) as machine, machine.stream(Command.of("sleep", "100")) as stream:
        os.kill(pid_of_session(jump_of(machine)), signal.SIGKILL)
        with pytest.raises(LostConnection, match="gpu01: the connection went"):
            stream.read(timeout=60)


def test_a_bastion_that_lets_through_to_other_places_only(lab: Lab) -> None:
    lab.one.stop()
    lab.one.start("PermitOpen 10.0.0.1:22")
    lab.config("Host gpu\n ProxyJump one\n")
    with pytest.raises(Unreachable, match="gpu01: through one: its sshd forbids forwarding"):
        connect(Host("gpu01", "gpu"))


def test_what_the_inventory_says_of_the_host_is_not_the_bastions(lab: Lab) -> None:
    """Its user, port and key are the host's own."""
    lab.config("Host gpu\n ProxyJump one\n")
    host = Host("gpu01", "gpu", user=ME, port=lab.gpu.port, key=str(lab.gpu.login))
    with connect(host) as machine:
        assert machine.run(HI).out == b"hi\n"
    assert lab.logins == [1, 1, 0]
