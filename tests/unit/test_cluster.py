"""The cluster of a run: who meets where, and which settings can't be that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, HostError, UsageError
from orchestrator.run.cluster import Cluster, cluster_of, endpoint, part, tf_config
from tests.unit.inventories import Desk

TWO = "gpu01 cluster_address=10.0.0.1\ngpu02 cluster_address=10.0.0.2\n[all:vars]\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def made(desk: Desk, text: str) -> Cluster:
    return cluster_of(desk.read(text).hosts)


def refused(desk: Desk, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        made(desk, text)
    return str(error.value)


def test_two_hosts_meet_at_their_cluster_addresses(desk: Desk) -> None:
    chief, other = made(desk, TWO + "cluster_ports = 20000-20002\n").members
    assert (chief.host, chief.address, chief.ports) == ("gpu01", "10.0.0.1", (20000, 20001, 20002))
    assert (other.host, other.address, other.bridge) == ("gpu02", "10.0.0.2", True)


def test_one_host_needs_no_settings(desk: Desk) -> None:
    (only,) = made(desk, "gpu01\n").members
    assert (only.host, only.address, only.ports) == ("gpu01", "", ())


@pytest.mark.parametrize(
    "settings", ["network = host", "engine = venv", "engine = apptainer", "engine = host"]
)
def test_without_a_bridge_any_port_will_do(desk: Desk, settings: str) -> None:
    members = made(desk, TWO + settings).members
    assert [m.ports for m in members] == [(), ()]
    assert not any(m.bridge for m in members)


def test_a_bridge_without_published_ports_says_what_to_write(desk: Desk) -> None:
    said = refused(desk, TWO)
    assert said.startswith("hosts.ini:1: no other host can reach a worker in the container on gpu01, gpu02")
    assert "cluster_ports = 20000-20020 (or network = host)" in said
    assert said.endswith("orch deploy --hosts gpu01,gpu02")


def test_a_host_takes_part_once(desk: Desk) -> None:
    host = desk.host("gpu01 engine=venv")
    with pytest.raises(UsageError, match="gpu01 is named twice"):
        cluster_of([host, host])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "localhost", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_nobodys_address(desk: Desk, address: str) -> None:
    said = refused(desk, f"gpu01 cluster_address={address}\ngpu02\n[all:vars]\nengine = venv\n")
    assert said.startswith(f"hosts.ini:1: cluster_address = {address}: to each host that is itself")


def test_a_link_local_address_is_refused(desk: Desk) -> None:
    said = refused(desk, "gpu01\ngpu02 cluster_address=fe80::1\n[all:vars]\nengine = venv\n")
    assert "hosts.ini:2: cluster_address = fe80::1: a link-local address" in said


def test_a_container_is_published_on_no_name(desk: Desk) -> None:
    text = "gpu01\ngpu02 cluster_address=gpu02.lab\n[all:vars]\ncluster_ports = 20000-20010\n"
    assert "published on an IP address, not a name" in refused(desk, text)
    assert made(desk, text + "network = host\n").members[1].address == "gpu02.lab"


def test_the_chief_needs_two_ports(desk: Desk) -> None:
    assert "hosts.ini:4: cluster_ports = 20000-20000 is one port" in refused(
        desk, TWO + "cluster_ports = 20000-20000\n"
    )


def test_one_address_for_all_is_told(desk: Desk) -> None:
    text = "gpu01\ngpu02\n[all:vars]\nnetwork = host\ncluster_address = 10.0.0.1\n"
    assert "gpu01 and gpu02 have the same cluster_address = 10.0.0.1" in refused(desk, text)


def test_one_address_with_ports_that_tell_the_hosts_apart(desk: Desk) -> None:
    text = "gpu01 cluster_ports=20000-20001\ngpu02 cluster_ports=20002-20003\n[all:vars]\n"
    assert len(made(desk, text + "network = host\ncluster_address = 10.0.0.1\n").members) == 2


def test_every_address_of_a_host_leaves_the_choice_to_it(desk: Desk) -> None:
    chief, _ = made(desk, TWO.replace("10.0.0.1", "0.0.0.0") + "cluster_ports = 20000-20010\n").members
    assert (chief.given, chief.address) == (False, "")


def test_hosts_name_the_addresses_that_are_not_set(desk: Desk) -> None:
    cluster = made(
        desk, "gpu01 cluster_address=10.0.0.1\ngpu02 ansible_host=10.9.9.2\n[all:vars]\nengine=venv\n"
    )
    assert [m.candidate for m in cluster.members] == ["10.0.0.1", "10.9.9.2"]
    assert [m.address for m in cluster.at(["192.168.0.1", "10.0.0.2"]).members] == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize("answer", ["", "127.0.1.1"])
def test_a_host_without_an_address_is_told(desk: Desk, answer: str) -> None:
    cluster = made(desk, "gpu01\ngpu02\n[all:vars]\nengine=venv\n")
    with pytest.raises(HostError) as error:
        cluster.at(["10.0.0.1", answer])
    assert str(error.value).startswith("gpu02: the other hosts can't reach it: ")
    assert str(error.value).endswith("Set cluster_address for it in hosts.ini.")


@pytest.mark.parametrize(
    "reached", ["ansible_connection = local", "ansible_host = 127.0.0.1\nansible_port = 2200"]
)
@pytest.mark.parametrize("engine", ["venv", "docker"])
def test_workers_of_one_machine_may_meet_on_loopback(desk: Desk, reached: str, engine: str) -> None:
    """In one container too, which then publishes nothing for it."""
    cluster = made(desk, f"a\nb\n[all:vars]\nengine = {engine}\n{reached}\n")
    assert [m.address for m in cluster.at(["127.0.0.1", "127.0.0.1"]).members] == ["127.0.0.1"] * 2


def test_what_a_workers_launch_says_of_the_cluster(desk: Desk) -> None:
    cluster = made(desk, TWO + "cluster_ports = 20000-20001\n")
    assert part(cluster, 1, ports=(20001, 20000), link=20000, token="ab") == {
        "rank": 1,
        "hosts": ["gpu01", "gpu02"],
        "addresses": ["10.0.0.1", "10.0.0.2"],
        "ports": [20000, 20001],
        "port": 20000,
        "link": 20000,
        "token": "ab",
    }


@pytest.mark.parametrize("count", [2, 3])
def test_tf_config(count: int) -> None:
    workers = [endpoint(f"10.0.0.{n}", 20000 + n) for n in range(count)]
    text = tf_config(workers, 1)
    assert "\n" not in text
    assert json.loads(text) == {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 1}}


def test_ipv6_stands_in_brackets() -> None:
    assert endpoint("fd00::1", 2222) == "[fd00::1]:2222"
    assert endpoint("gpu01.lab", 2222) == "gpu01.lab:2222"
