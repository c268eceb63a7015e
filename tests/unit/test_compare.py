"""What stands against a run on several hosts, from what they said. Nothing is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.run.checks import Look, Matrix, Pair, compare, notes
from orchestrator.run.checks.look import Clock
from orchestrator.run.checks.network import Network, Way, network
from orchestrator.run.checks.telling import complaint
from orchestrator.run.cluster import Member
from tests.unit.test_environment import CONTAINER

OPEN = {20000: ("0.0.0.0",), 20001: ("10.0.0.2",)}


def seen(rank: int, env: str = "e1", **change: Any) -> Look:
    name, address = f"gpu0{rank + 1}", f"10.0.0.{rank + 1}"
    deployed: dict[str, Any] = {"network": "bridge"}
    deployed |= {k: change.pop(k) for k in ("image", "python", "tag", "engine") if k in change}
    at = Network((("eth0", address),), ((1 - rank, Way("eth0", address)),), published={20000: (address,)})
    plain = Look(
        host=name,
        member=Member(name, address, (20000, 20001), bridge=True),
        environment=replace(CONTAINER, env=env, **deployed),
        bundle=True,
        port=20000,
        link=0,
        network=at,
        packages=("numpy==1.22.4", "six==1.16"),
    )
    return replace(plain, **change)


def told(*looks: Look) -> list[str]:
    return [str(error) for error in compare(looks)]


def test_hosts_that_are_alike() -> None:
    assert told(seen(0), seen(1)) == []


def test_one_recipe_that_was_built_twice() -> None:
    packages = ("numpy==1.23.5", "wandb==0.17")
    assert told(seen(0, tag="t"), seen(1, "e2", tag="t", packages=packages)) == [
        "gpu02: its environment is not that of gpu01: numpy 1.23.5 (gpu01: 1.22.4), six none (gpu01: 1.16), "
        "wandb 0.17 (gpu01: none). To make them equal: orch image lock gpu01, then orch deploy --locked "
        "--hosts gpu01,gpu02; or train all the same: --skip-checks."
    ]


def test_environments_of_other_settings() -> None:
    (line,) = told(seen(0, image="a", tag="t1"), seen(1, "e2", image="b", python="3.9.2", tag="t2"))
    assert "image b, gpu01 a; Python 3.9.2, gpu01 " in line
    assert "the same image and requirements in hosts.ini, then orch deploy --hosts gpu01,gpu02" in line


def test_many_packages_are_counted() -> None:
    packages = tuple(f"p{n}==1" for n in range(9))
    (line,) = notes([seen(0), seen(1, packages=(*seen(0).packages, *packages))])
    assert line.startswith("gpu02 has other packages by hand: p0 1 (gpu01: none), ")
    assert line.endswith("p5 1 (gpu01: none), and 3 more")


def test_packages_that_may_differ_in_one_environment() -> None:
    """Those of a home. What the workers compute and send with may not."""
    lab = seen(1, packages=(*seen(0).packages, "jupyterlab==3.6"))
    assert told(seen(0), lab) == []
    assert len(notes([seen(0), lab])) == 1
    other = seen(1, packages=("jupyterlab==3.6", "numpy==1.23.5", "six==1.16"))
    (line,) = told(seen(0), other)
    assert line.startswith(
        "gpu02: packages by hand: numpy 1.23.5 (gpu01: 1.22.4), jupyterlab 3.6 (gpu01: none). What all"
    )
    assert notes([seen(0), other]) == []
    assert notes([seen(0), seen(1, "e2", packages=lab.packages)]) == []  # told as a complaint


def test_each_host_is_compared_with_the_first() -> None:
    assert len(told(seen(0), seen(1, "e2"), seen(1, "e3"))) == 2


@pytest.mark.parametrize(
    ("published", "why"),
    [
        ({}, "the container does not publish port 20000, which is one of cluster_ports"),
        ({20000: ("10.9.9.9",)}, "the container publishes port 20000 on 10.9.9.9, not on 10.0.0.2"),
        ({20000: ("::",)}, "the container publishes port 20000 on ::, not on 10.0.0.2"),
        (OPEN, ""),
        (None, ""),
    ],
)
def test_ports_that_the_deployed_container_does_not_publish(published: Any, why: str) -> None:
    errors = compare([seen(0), seen(1, network=replace(seen(1).network, published=published))])
    assert [str(e) for e in errors] == [
        f"gpu02: {why}. To have it: orch deploy --hosts gpu02" for _ in range(bool(why))
    ]
    assert all(isinstance(e, ConfigError) for e in errors)


@pytest.mark.parametrize(("published", "reached"), [("::", True), ("0.0.0.0", False), ("fd00::0:2", True)])
def test_ports_on_ipv6(published: str, reached: bool) -> None:
    member = Member("gpu02", "fd00::2", (20000,), bridge=True)
    at = replace(seen(1).network, published={20000: (published,)})
    assert (told(seen(0), seen(1, member=member, network=at)) == []) == reached


def test_a_container_that_was_deployed_with_another_network() -> None:
    member = replace(seen(1).member, bridge=False)
    (line,) = told(seen(0), seen(1, member=member))
    assert line.startswith("gpu02: network = host, and the container on gpu02 has network bridge")


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (Clock(-0.5, 4.9), ""),
        (Clock(5.6, 5.9), "its clock is 5 s ahead of that of gpu01"),
        (Clock(-4000, -3700), "its clock is 1 h behind that of gpu01"),
        (Clock(-60, 60), ""),
        (None, ""),
    ],
)
def test_clocks(clock: Clock | None, words: str) -> None:
    lines = told(seen(0, clock=Clock(-0.1, 0.1)), seen(1, clock=clock))
    assert len(lines) == bool(words)
    assert all(line.startswith(f"gpu02: {words}. Turn on NTP") for line in lines)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            "refused",
            "connection refused; a firewall on the way or on gpu02 refuses it. Let TCP 20000-20001",
        ),
        (
            "timeout",
            "timed out; a firewall on the way or on gpu02 drops it. Let TCP 20000-20001 in",
        ),
        ("route", "no route; gpu01 is in another network. Set cluster_address of gpu02"),
        ("name", "the name is not known there. Write an IP address as cluster_address of gpu02"),
        ("stranger", "something else answers there. See who has the address 10.0.0.2"),
        ("other", "odd; "),
    ],
)
def test_a_pair_that_failed(how: str, words: str) -> None:
    line = str(complaint(Pair(0, 1, 20000, how, "odd"), [seen(0), seen(1)]))
    assert line.startswith(f"gpu01: can't reach gpu02 at 10.0.0.2:20000 by eth0: {words}")


def test_all_who_fail_alike_stand_in_one_line() -> None:
    third = replace(seen(0), host="gpu03", member=replace(seen(0).member, host="gpu03", address="10.0.0.3"))
    pairs = (Pair(0, 1, 20000, "timeout"), Pair(1, 0, 20000, "ok"), Pair(2, 1, 20000, "timeout"))
    matrix = Matrix((seen(0), seen(1), third), (*pairs, Pair(2, 1, 20001, "refused")))
    first, second = (str(error) for error in matrix.complaints)
    assert first.startswith("gpu01,gpu03: can't reach gpu02 at 10.0.0.2:20000 by eth0: timed out")
    assert "Let TCP 20000-20001 in from 10.0.0.1, 10.0.0.3 on gpu02" in first
    assert second.startswith("gpu03: can't reach gpu02 at 10.0.0.2:20001 by eth0: connection refused")


def test_ipv6_out_of_a_container_that_has_none() -> None:
    target = seen(1, member=Member("gpu02", "fd00::2", (20000,), bridge=True))
    target = replace(target, network=Network((("eth0", "fd00::2"),)))
    line = str(complaint(Pair(0, 1, 20000, "route"), [seen(0), target]))
    assert (
        "at [fd00::2]:20000 by eth0: no route; the container on gpu01 may have no IPv6. Give Docker one"
        in line
    )


def test_what_a_host_says_of_its_network() -> None:
    found = network(
        {
            "own": "lo 127.0.0.1\neth0 10.0.0.1\neth0 fe80::1\ndocker0 172.17.0.1\nib0 10.1.0.1",
            "ssh": "10.0.0.9 50000 ::ffff:10.0.0.1 22",
            "way.1": "ib0 10.1.0.1",
            "way.2": "docker0 172.17.0.1",
            "way.3": "",
            "way.out": "eth0 10.0.0.1",
            "published": "22/tcp -> 127.0.0.1:2222\n20000/tcp -> 0.0.0.0:20000\n20000/tcp -> [::]:20000",
        },
        "eth0",
    )
    assert found.sources == ["10.1.0.1"]
    assert (found.ssh, found.out, found.way_to(1), found.way_to(3)) == ("10.0.0.1", "10.0.0.1", "ib0", "")
    assert found.published == {20000: ("0.0.0.0", "::")}
    assert found.interfaces(Member("a", "10.1.0.1")) == ("ib0",)
    assert found.interfaces(Member("a", "10.0.0.1", bridge=True)) == ("eth0",)
    assert found.has("10.1.0.1")
    assert not found.has("10.1.0.2")


def test_never_the_loopback_and_never_dockers_bridge() -> None:
    own = (("lo", "127.0.0.1"), ("docker0", "172.17.0.1"))
    found = Network(own, ((1, Way("lo", "127.0.0.1")), (2, Way("docker0", "172.17.0.1"))), inside="lo")
    assert found.sources == []
    assert found.interfaces(Member("a", "127.0.0.1")) == ()
    assert found.interfaces(Member("a", "172.17.0.1")) == ()
    assert found.interfaces(Member("a", "10.0.0.1", bridge=True)) == ()


def test_an_interface_whose_name_begins_anothers() -> None:
    assert Network((("eth1", "10.0.0.1"), ("eth10", "10.0.1.1"))).for_nccl(("eth1",)) == "=eth1"
    assert Network((("eth1", "10.0.0.1"), ("lo", "127.0.0.1"))).for_nccl(("eth1", "eth2")) == "eth1,eth2"
