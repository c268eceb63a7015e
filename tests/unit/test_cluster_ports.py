"""What a container has for runs on several hosts: published ports, InfiniBand, words of warning."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.container.causes import explain_failure
from orchestrator.container.identity import Identity
from orchestrator.errors import Busy, ConfigError
from orchestrator.facts.docker import Container
from orchestrator.facts.place import LiveRun

from .deploys import facts, host, plan
from .test_run_command import words

OWN = (("lo", "127.0.0.1"), ("eth0", "10.0.0.5"), ("eth0", "fd00::5"), ("eth0", "fe80::1"))


def ports(**settings: str) -> dict[str, Any]:
    return {"cluster_ports": "20000-20002", **settings}


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("10.0.0.5", "--publish 10.0.0.5:20000-20002:20000-20002"),
        ("fd00::5", "--publish '[fd00::5]:20000-20002:20000-20002'"),
        (None, "--publish 0.0.0.0:20000-20002:20000-20002"),
        ("0.0.0.0", "--publish 0.0.0.0:20000-20002:20000-20002"),
    ],
)
def test_the_ports_are_published_on_the_address(address: str | None, part: str) -> None:
    known = facts(system__addresses=OWN)
    assert part in words(known, **ports(), cluster_address=address)


def test_the_hosts_own_network_publishes_nothing() -> None:
    assert "--publish" not in words(**ports(), network="host")


def test_a_name_is_no_address_to_publish_on() -> None:
    with pytest.raises(ConfigError, match=r"^hosts.ini:11: cluster_address = gpu01.lab: .* not a name"):
        plan(host(cluster_ports="20000-20002", cluster_address="gpu01.lab"))


def test_an_address_that_the_host_has_not() -> None:
    with pytest.raises(ConfigError) as error:
        plan(host(cluster_ports="20000-20002", cluster_address="10.0.0.6"), facts(system__addresses=OWN))
    assert str(error.value) == (
        "hosts.ini:11: cluster_address = 10.0.0.6 is none of gpu01's addresses: 10.0.0.5, fd00::5. "
        "Write the one by which the other hosts reach it."
    )


def test_a_new_container_beside_one_that_has_the_ports() -> None:
    wanted = host(**ports(), shm_size="1g")
    old = Container(
        id="a" * 64,
        name="orch-ana-mnist",
        image="i",
        running=True,
        exit_code=0,
        labels={"orch.person": "ana", "orch.project": "mnist", "orch.folder": _folder(), "orch.port": "2222"},
        ports=frozenset({2222, 20000, 20001, 20002}),
    )
    known = facts(docker__containers=(old,), place__live=(LiveRun("r1", old.id),))
    with pytest.raises(Busy) as error:
        plan(wanted, known)
    assert str(error.value) == (
        "gpu01: ports 20000-20002 are those of orch-ana-mnist, in which a run lives. Wait for its end, or "
        "--replace ends it, or set other cluster_ports (hosts.ini:10)."
    )
    assert plan(wanted, known, replace=True).action == "replace"


def _folder() -> str:
    from .deploys import IDENTITY

    identity: Identity = IDENTITY
    return identity.folder


def test_the_port_of_sshd_is_none_of_the_clusters() -> None:
    assert plan(host(cluster_ports="2222-2230")).port == 2231


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "driver failed programming external connectivity on endpoint orch-x (ae49): Bind for "
            "0.0.0.0:20001 failed: port is already allocated.",
            "gpu01: port 20001 is taken there by now. Set other cluster_ports (hosts.ini:10); who has it, "
            "says there: ss -ltnp",
        ),
        (
            "Error starting userland proxy: listen tcp4 10.0.0.5:20002: bind: address already in use.",
            "gpu01: port 20002 is taken there by now. Set other cluster_ports (hosts.ini:10); who has it, "
            "says there: ss -ltnp",
        ),
        (
            "rootlessport listen tcp 0.0.0.0:6006: bind: address already in use",
            "gpu01: port 6006 is taken there by now. Set other publish (hosts.ini:11); who has it, "
            "says there: ss -ltnp",
        ),
        (
            "Bind for 127.0.0.1:2222 failed: port is already allocated.",
            "gpu01: port 2222 is taken by now. Deploy again with ssh_port = auto, or another port.",
        ),
        (
            "listen tcp4 10.0.0.9:20000: bind: cannot assign requested address",
            "gpu01: 10.0.0.9 is none of the host's addresses, and the container's ports can't be published "
            "on it. Correct cluster_address (default).",
        ),
    ],
)
def test_an_engine_that_can_not_publish(said: str, line: str) -> None:
    wanted = host(cluster_ports="20000-20002", publish=("6006",))
    assert str(explain_failure(wanted, f"docker: {said}", plan=plan(wanted))) == line


@pytest.mark.parametrize(("settings", "given"), [({}, False), (ports(), True), ({"network": "host"}, True)])
def test_infiniband_is_given_to_what_trains_with_others(settings: dict[str, Any], given: bool) -> None:
    known = facts(system__infiniband=True)
    assert ("--device=/dev/infiniband" in words(known, **settings)) == given
    notes = plan(host(**settings), known).notes
    assert ("InfiniBand: /dev/infiniband is given to the container" in notes) == given
    assert "infiniband" not in words(facts(), **settings)


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({}, ""),
        (
            {"network": "host"},
            "8.8.4.4, 2a00::1 are public: a firewall must keep the world from the ports of",
        ),
        (ports(), "8.8.4.4 is public: a firewall must keep the world from cluster_ports on 8.8.4.4"),
        (ports(cluster_address="10.0.0.5"), ""),
        (ports(cluster_address="2a00::1"), "2a00::1 is public"),
    ],
)
def test_ports_that_the_world_would_reach(settings: dict[str, Any], warned: str) -> None:
    public = facts(system__addresses=(*OWN, ("eth1", "8.8.4.4"), ("eth1", "2a00::1")))
    said = [note for note in plan(host(**settings), public).notes if note.startswith("WARN")]
    assert bool(said) == bool(warned)
    assert all(warned in note for note in said)
    private = facts(system__addresses=OWN)
    own = {n: v for n, v in settings.items() if v != "2a00::1"}
    assert not [note for note in plan(host(**own), private).notes if "WARN" in note]


def test_the_plain_container_asks_for_nothing_of_it() -> None:
    known = facts(system__infiniband=True, system__addresses=OWN)
    assert not plan(host(), known).notes
