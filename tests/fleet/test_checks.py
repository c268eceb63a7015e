"""The checks on several hosts, on two real ones: by published ports of containers, by the hosts' network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from orchestrator.container.identity import identity_of
from orchestrator.errors import Busy, OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.connect import connect
from orchestrator.inventory import load
from orchestrator.run.checks import Look, Matrix, compare, look, network_env, notes, reach, settled
from orchestrator.run.checks.reach import asked, script
from orchestrator.run.cluster import Cluster, cluster_of
from orchestrator.run.launch import Order
from orchestrator.run.spec import RunSpec
from tests.until import until

from . import small
from .lab import Fleet, Host
from .orch import Orch, make_project

RUN = "20261201-0214-together-7f3a"
SPAN = "21000-21007"
BRIDGE = {"ORCH_PROJECT": "bridged", "ORCH_PERSON": "ana", "ORCH_CLUSTER_PORTS": SPAN}
NETWORK = {"ORCH_PROJECT": "hosted", "ORCH_PERSON": "ana", "ORCH_NETWORK": "host"}


class Two:
    """Both hosts with their containers deployed, and connections to them."""

    def __init__(self, orch: Orch, **more: str) -> None:
        environ = {**orch.environment(), **more}
        found = load([Path(environ["ORCH_INVENTORY"])], environ=environ, flags={})
        self.hosts = found.select(["gpu01,gpu02"]).hosts
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


def test_ports_that_a_firewall_refuses(two: Two, gpu01: Host, gpu02: Host) -> None:
    """From the second host to both ports of the first one: the worker's, and the supervisor's."""
    looks = two.looks()
    chain = "DOCKER-USER" if bridged(two) else "INPUT"
    with blocked(gpu01, chain, "-p", "tcp", "-s", gpu02.address, "-m", "conntrack", "--ctstate", "NEW",
                 "-m", "conntrack", "!", "--ctorigdstport", "22", "-j", "REJECT"):  # fmt: skip
        matrix = two.reach(looks, window=4)
    told = [str(error) for error in matrix.complaints]
    assert sorted(told) == sorted(
        f"gpu02: can't reach gpu01 at {gpu01.address}:{port} by eth0: connection refused; a firewall on the "
        f"way or on gpu01 refuses it. Let TCP {two_ports(looks[0], port)} in from {gpu02.address} on gpu01 "
        "(iptables -L -n, nft list ruleset, ufw status)."
        for port in looks[0].listens
    )


def two_ports(seen: Look, port: int) -> str:
    return SPAN if seen.ports else str(port)


def test_an_address_that_is_another_hosts_or_nobodys(two: Two, tmp_path: Path, gpu02: Host) -> None:
    nobody = gpu02.address.rpartition(".")[0] + ".99"
    inventory = tmp_path / "hosts.ini"
    text = Path(two.orch.environment()["ORCH_INVENTORY"]).read_text()
    inventory.write_text(text.replace(gpu02.address, f"{gpu02.address} cluster_address={nobody}"))
    wrong = Two(two.orch.having(ORCH_INVENTORY=str(inventory)))
    looks = wrong.looks()
    (error,) = wrong.reach(looks, window=5).complaints
    wrong.close()
    assert f"can't reach gpu02 at {nobody}:{looks[1].port} by eth0: " in str(error)
    assert f"; {nobody} is none of gpu02's addresses: {gpu02.address} (eth0)" in str(error)
    assert re.search(r"Correct cluster_address \(.*hosts.ini:\d+\)\.$", str(error))


def test_packages_that_somebody_put_in_on_one_host(two: Two, gpu02: Host) -> None:
    name = container(two, gpu02)
    folder = "/usr/local/lib/python3.9/dist-packages/wandb-0.17.dist-info"
    gpu02.docker("exec", "-u", "0", name, "mkdir", "-p", folder)
    try:
        looks = two.looks()
    finally:
        gpu02.docker("exec", "-u", "0", name, "rmdir", folder)
    assert notes(looks) == ["gpu02 has other packages by hand: wandb 0.17 (gpu01: none)"]
    assert compare(looks) == []
    assert notes(two.looks()) == []


def test_a_clock_that_is_behind(two: Two, gpu02: Host) -> None:
    with gpu02.clock_set_back(3600):
        (error,) = compare(two.looks())
    assert re.match(
        r"gpu02: its clock is (59 min|1 h) behind that of gpu01\. Turn on NTP on both", str(error)
    )
    with gpu02.clock_set_back(3):
        assert compare(two.looks()) == []


def test_a_port_that_is_taken_is_passed_over_and_told_when_it_is_taken_later(two: Two, gpu02: Host) -> None:
    seen = two.look(1)
    with listener(two, gpu02, seen.port):
        assert two.look(1).port != seen.port
        matrix = two.reach([two.look(0), seen], window=3)
    (error,) = matrix.complaints
    assert isinstance(error, Busy)
    assert str(error) == f"gpu02: port {seen.port} was taken by another in the meantime. Try again."


def test_what_listens_ends_also_when_nobody_waits_for_it(two: Two, gpu01: Host) -> None:
    looks = two.looks()
    wanted = asked(looks, two.settled(looks), 0, "token", 8)
    waiting = Thread(target=lambda: lost(lambda: two.machines["gpu01"].run(script(looks[0], wanted))))
    waiting.start()
    until(lambda: listens(two, gpu01, looks[0].port))
    two.machines["gpu01"].close()
    waiting.join()
    until(lambda: not listens(two, gpu01, looks[0].port))
    assert "ORCH_REACH" not in gpu01.docker("top", container(two, gpu01))
    assert "python3 -" not in gpu01.docker("top", container(two, gpu01))


def lost(work: Callable[[], object]) -> None:
    with suppress(OrchError):
        work()


def container(two: Two, host: Host) -> str:
    project = "bridged" if bridged(two) else "hosted"
    (name,) = (name for name in host.containers() if name == f"orch-ana-{project}")
    return name


def listens(two: Two, host: Host, port: int) -> bool:
    """Whether somebody listens in the container's network."""
    table = host.docker("exec", container(two, host), "cat", "/proc/net/tcp")
    return any(f":{port:04X} " in line and " 0A " in line for line in table.splitlines())


@contextmanager
def listener(two: Two, host: Host, port: int) -> Iterator[None]:
    """A program in the container that listens on a port as TensorFlow does."""
    code = (
        "import socket, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); "
        f"s.bind(('', {port})); s.listen(); time.sleep(600)"
    )
    name = container(two, host)
    host.docker("exec", "-d", name, "python3", "-c", code)
    until(lambda: listens(two, host, port))
    try:
        yield
    finally:
        host.docker("exec", "-u", "0", name, "pkill", "-f", "time.sleep.600")
        until(lambda: not listens(two, host, port))
