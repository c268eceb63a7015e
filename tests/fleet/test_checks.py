"""The checks on several hosts, on two real ones: by published ports of containers, by the hosts' network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.container.identity import identity_of
from orchestrator.errors import OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.connect import connect
from orchestrator.inventory import load
from orchestrator.run.checks import Look, Matrix, compare, look, network_env, reach, settled
from orchestrator.run.cluster import Cluster, cluster_of
from orchestrator.run.launch import Order
from orchestrator.run.spec import RunSpec

from . import small
from .lab import Fleet, Host
from .orch import Orch, make_project

RUN = "20261201-0214-together-7f3a"
SPAN = "21000-21007"
BRIDGE = {"ORCH_PROJECT": "bridged", "ORCH_PERSON": "ana", "ORCH_CLUSTER_PORTS": SPAN}
NETWORK = {"ORCH_PROJECT": "hosted", "ORCH_PERSON": "ana", "ORCH_NETWORK": "host"}


class Two:
    """Both hosts with their containers deployed, and connections to them."""

    def __init__(self, orch: Orch, names: tuple[str, ...] = ("gpu01", "gpu02"), **more: str) -> None:
        environ = {**orch.environment(), **more}
        found = load([Path(environ["ORCH_INVENTORY"])], environ=environ, flags={})
        self.hosts = found.select([",".join(names)]).hosts
        self.machines: dict[str, Machine] = {host.name: connect(host) for host in self.hosts}
        self.orch, self.cluster = orch, cluster_of(self.hosts)

    def looks(self) -> list[Look]:
        return [self.look(rank) for rank in range(len(self.hosts))]

    def look(self, rank: int, run: str = RUN) -> Look:
        host = self.hosts[rank]
        identity = identity_of(host, self.orch.cwd)
        spec = RunSpec(run, ("true",), tuple(h.name for h in self.hosts), "ana", "p", "b1")
        order = Order(spec, identity.place(host), identity=identity)
        return look(self.machines[host.name], order, self.cluster.members[rank], self.cluster)

    def settled(self, looks: list[Look]) -> Cluster:
        return settled(self.cluster, looks)

    def reach(self, looks: list[Look], window: float = 12) -> Matrix:
        return reach(self.machines, looks, self.settled(looks), window=window)

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()


@pytest.fixture(scope="module")
def person(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Orch:
    """Ana with a small image, on both hosts."""
    base = tmp_path_factory.mktemp("checks")
    orch = Orch(fleet, home=base / "home", cwd=make_project(base / "mnist"), account="ana")
    archive = small.archive(fleet["gpu01"])
    for host in fleet.hosts.values():
        host.docker("load", "-i", archive)
    return orch.having(ORCH_IMAGE=small.IMAGE, ORCH_ROOT="/home/ana/checks")


@pytest.fixture(scope="module", params=[BRIDGE, NETWORK], ids=["bridge", "host"])
def deployed(person: Orch, request: pytest.FixtureRequest) -> Iterator[Orch]:
    orch = person.having(**request.param)
    orch("deploy", "--yes", "--hosts", "gpu01,gpu02", timeout=600)
    yield orch
    orch("down", "--yes", "--replace", "--hosts", "gpu01,gpu02", code=None)


@pytest.fixture
def two(deployed: Orch) -> Iterator[Two]:
    two = Two(deployed)
    yield two
    two.close()


def bridged(two: Two) -> bool:
    return two.cluster.members[0].bridge


def said(errors: list[OrchError]) -> str:
    return "\n".join(map(str, errors))


@contextmanager
def blocked(host: Host, *rule: str) -> Iterator[None]:
    """A rule of the host's own firewall, for the length of a `with`."""
    host.run(f"iptables -w -I {' '.join(rule)}")
    try:
        yield
    finally:
        host.run(f"iptables -w -D {' '.join(rule)}")


def test_two_hosts_that_can_train_together(two: Two, gpu01: Host, gpu02: Host) -> None:
    counters = gpu01.counter(), gpu02.counter()
    looks = two.looks()
    assert said(compare(looks)) == ""
    assert [m.address for m in two.settled(looks).members] == [gpu01.address, gpu02.address]
    matrix = two.reach(looks)
    assert said(matrix.complaints) == ""
    assert [p.how for p in matrix.pairs] == ["ok"] * 3
    assert [counter.read().execs for counter in counters] == [2, 2]
    assert [network_env(seen, two.hosts[0].settings) for seen in looks] == [
        {"NCCL_SOCKET_IFNAME": "eth0"}
    ] * 2


def test_ports_that_a_firewall_drops(two: Two, gpu01: Host, gpu02: Host) -> None:
    looks = two.looks()
    chain, port = ("DOCKER-USER", looks[1].port) if bridged(two) else ("INPUT", looks[1].port)
    match = ["-m", "conntrack", "--ctorigdstport", str(port)] if bridged(two) else ["--dport", str(port)]
    with blocked(gpu02, chain, "-p", "tcp", "-s", gpu01.address, *match, "-j", "DROP"):
        matrix = two.reach(looks, window=5)
    (error,) = matrix.complaints
    assert str(error).startswith(
        f"gpu01: can't reach gpu02 at {gpu02.address}:{port} by eth0: timed out; a firewall on the way"
    )
    assert matrix.line == "reach   1 of 3 ways failed, from environment to environment"
