"""What a deploy does for runs on several hosts, by real Docker: ports, addresses, IPv6, InfiniBand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.run.checks import compare, network_env
from tests.until import until

from .lab import Fleet, Host
from .orch import Orch
from .test_checks import Two, person, said

__all__ = ["person"]  # a fixture

BUSY, BAD_CONFIG = 75, 78
PORTS = "22000-22003"


@pytest.fixture
def orch(person: Orch) -> Iterator[Orch]:
    orch = person.having(ORCH_PROJECT="met", ORCH_PERSON="ana", ORCH_CLUSTER_PORTS=PORTS)
    yield orch
    orch("down", "--yes", "--replace", "--hosts", "gpu01,gpu02", code=None)


@contextmanager
def listening(host: Host, port: int) -> Iterator[None]:
    host.run(f"python3 -c 'import socket, time; s = socket.socket(); s.bind((\"\", {port})); s.listen(); "
             "time.sleep(600)' >/dev/null 2>&1 </dev/null & echo $! >/run/listener")  # fmt: skip
    try:
        until(lambda: host.run(f"ss -Hltn sport = :{port}").stdout, "the port")
        yield
    finally:
        host.run("kill $(cat /run/listener)")


def with_addresses(orch: Orch, folder: Path, addresses: dict[str, str]) -> Orch:
    """The same with a cluster_address for each host."""
    text = Path(orch.environment()["ORCH_INVENTORY"]).read_text()
    for name, address in addresses.items():
        text = re.sub(rf"^{name} .*", rf"\g<0> cluster_address={address}", text, flags=re.MULTILINE)
    inventory = folder / "hosts.ini"
    inventory.write_text(text)
    return orch.having(ORCH_INVENTORY=str(inventory))


def test_a_port_that_another_program_has(orch: Orch, gpu01: Host) -> None:
    with listening(gpu01, 22002):
        failed = orch("deploy", "--yes", "--hosts", "gpu01", code=BUSY)
    (line,) = (line for line in failed.stderr.splitlines() if line.startswith("orch: "))
    assert line == (
        "orch: gpu01: port 22002 is taken there by now. Set other cluster_ports (ORCH_CLUSTER_PORTS); who "
        "has it, says there: ss -ltnp"
    )
    assert "orch-ana-met" not in gpu01.containers(all=True)
    orch("deploy", "--yes", "--hosts", "gpu01")


def test_an_address_that_the_host_has_not(orch: Orch, tmp_path: Path, gpu01: Host) -> None:
    wrong = with_addresses(orch, tmp_path, {"gpu01": "10.11.12.13"})
    failed = wrong("deploy", "--yes", "--hosts", "gpu01", code=BAD_CONFIG)
    told = (
        r"^orch: .*hosts.ini:\d+: cluster_address = 10\.11\.12\.13 is none of gpu01's addresses: "
        + gpu01.address
    )
    assert re.search(told, failed.stderr, re.MULTILINE)


def test_ports_of_a_container_in_which_a_run_lives(orch: Orch, gpu01: Host) -> None:
    orch("deploy", "--yes", "--hosts", "gpu01")
    orch("train", "-d", "--hosts", "gpu01", "--name", "lives", "--", "sleep", "600")
    other = orch.having(ORCH_SHM_SIZE="1g")
    failed = other("deploy", "--yes", "--hosts", "gpu01", code=BUSY)
    assert f"ports {PORTS} are those of orch-ana-met, in which a run lives" in failed.stderr
    assert "--replace ends it" in failed.stderr
    assert gpu01.containers().count("orch-ana-met") == 1
    orch("stop", "--now", "lives")
    other("deploy", "--yes", "--hosts", "gpu01")


def test_a_plan_warns_where_the_world_would_reach_the_ports(orch: Orch, gpu01: Host) -> None:
    gpu01.run("ip addr add 8.8.4.4/32 dev eth0")
    try:
        bridge = orch("deploy", "--dry-run", "--hosts", "gpu01")
        host = orch.having(ORCH_NETWORK="host")("deploy", "--dry-run", "--hosts", "gpu01")
    finally:
        gpu01.run("ip addr del 8.8.4.4/32 dev eth0")
    plans = [" ".join((done.stdout + done.stderr).split()) for done in (bridge, host)]
    assert "8.8.4.4 is public: a firewall must keep the world from cluster_ports on 8.8.4.4" in plans[0]
    assert "8.8.4.4 is public: a firewall must keep the world from the ports of a run" in plans[1]
    assert "WARN" not in orch("deploy", "--dry-run", "--hosts", "gpu01").stderr


def test_infiniband_is_in_the_container(orch: Orch, gpu01: Host) -> None:
    gpu01.run("mkdir -p /dev/infiniband && mount -t tmpfs tmpfs /dev/infiniband")
    try:
        gpu01.run("mknod -m 666 /dev/infiniband/uverbs0 c 231 192")
        done = orch("deploy", "--yes", "--hosts", "gpu01")
        assert "InfiniBand: /dev/infiniband is given to the container" in done.stdout + done.stderr
        inside = gpu01.docker(
            "exec", "-u", "ana", "orch-ana-met", "sh", "-c", "ls /dev/infiniband; df /dev/shm"
        )
    finally:
        orch("down", "--yes", "--hosts", "gpu01", code=None)
        gpu01.run("umount /dev/infiniband && rmdir /dev/infiniband")
    assert inside.startswith("uverbs0\n")
    assert " 8388608 " in inside


@pytest.fixture
def on_ipv6(fleet: Fleet) -> Iterator[dict[str, str]]:
    """Both hosts with an address of IPv6 as well."""
    addresses = {"gpu01": "fd42::11", "gpu02": "fd42::12"}
    off = {name: fleet[name].run("cat /proc/sys/net/ipv6/conf/all/disable_ipv6").stdout for name in addresses}
    for name, address in addresses.items():
        fleet[name].run(
            f"sysctl -qw net.ipv6.conf.all.disable_ipv6=0; ip addr add {address}/64 dev eth0 nodad"
        )
    yield addresses
    for name, address in addresses.items():
        fleet[name].run(
            f"ip addr del {address}/64 dev eth0; sysctl -qw net.ipv6.conf.all.disable_ipv6={off[name]}"
        )


def test_two_hosts_that_meet_on_ipv6(orch: Orch, tmp_path: Path, on_ipv6: dict[str, str]) -> None:
    by_host = with_addresses(orch.having(ORCH_NETWORK="host"), tmp_path, on_ipv6)
    by_host("deploy", "--yes", "--hosts", "gpu01,gpu02", timeout=600)
    two = Two(by_host)
    looks = two.looks()
    assert said(compare(looks)) == ""
    assert said(two.reach(looks).complaints) == ""
    assert network_env(looks[0], two.hosts[0].settings) == {"NCCL_SOCKET_IFNAME": "eth0"}
    two.close()


def test_a_bridge_without_ipv6_and_one_with_it(
    orch: Orch, tmp_path: Path, on_ipv6: dict[str, str], gpu01: Host, gpu02: Host
) -> None:
    bridged = with_addresses(orch, tmp_path, on_ipv6)
    bridged("deploy", "--yes", "--hosts", "gpu01,gpu02", timeout=600)
    two = Two(bridged)
    looks = two.looks()
    assert said(compare(looks)) == ""
    told = said(two.reach(looks, window=3).complaints)
    two.close()
    assert f"gpu01: can't reach gpu02 at [fd42::12]:{looks[1].port} by eth0: " in told
    assert "the container on gpu01 may have no IPv6. Give Docker one" in told
    ipv6 = {"ipv6": True, "ip6tables": True, "experimental": True}
    with (
        gpu01.docker_with(fixed_cidr_v6="fd43:1::/64", **ipv6),
        gpu02.docker_with(fixed_cidr_v6="fd43:2::/64", **ipv6),
    ):
        two = Two(bridged)
        looks = two.looks()
        assert said(compare(looks)) == ""
        told = said(two.reach(looks).complaints)
        two.close()
    assert told == ""
