"""What doctor says of hosts that could train together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.doctor import Check, Examined, Level, together
from orchestrator.inventory import Settings

from .test_doctor import WELL
from .test_environment import CONTAINER

SPAN = {"cluster_ports": "20000-20002"}


def one(name: str, groups: tuple[str, ...] = ("lab",), env: str | None = "e1", **change: Any) -> Examined:
    settings = Settings(**change.pop("settings", SPAN))
    host = replace(
        WELL.host,
        name=name,
        address=name,
        groups=("all", *groups),
        settings=settings,
        where=f"hosts.ini:{name[-1]}",
    )
    sources = {"cluster_address": "hosts.ini:3", "cluster_ports": "hosts.ini:4"}
    recorded = replace(CONTAINER, env=env or "").text() if env else None
    system = replace(WELL.system, **change.pop("system", {}))
    return replace(
        WELL,
        host=replace(host, sources=sources),
        place=replace(WELL.place, environment=recorded),
        system=system,
        **change,
    )


def of_both(first: Examined, second: Examined) -> Check:
    found = together([first, second])
    assert found["gpu01"] == found["gpu02"]
    return found["gpu01"]


def test_hosts_that_could() -> None:
    check = of_both(one("gpu01"), one("gpu02"))
    assert (check.level, check.message) == (
        Level.OK,
        "group lab (gpu01, gpu02) could train together: the same environment, cluster_ports by "
        "published ports",
    )
    direct = {"settings": {"engine": "venv"}}
    assert of_both(one("gpu01", **direct), one("gpu02", **direct)).message.endswith(
        "any port by the hosts' network"
    )


def test_a_host_alone_has_no_such_row() -> None:
    assert together([one("gpu01")]) == {}
    assert together([one("gpu01", ("a",)), one("gpu02", ("b",)), one("gpu03", ("b",))]).keys() == {
        "gpu02",
        "gpu03",
    }


def test_hosts_without_a_group_are_taken_for_one() -> None:
    assert of_both(one("gpu01", ()), one("gpu02", ())).message.startswith("gpu01, gpu02 could train together")


def test_hosts_that_nobody_set_up_for_it() -> None:
    check = of_both(one("gpu01", settings={}), one("gpu02", settings={}))
    assert check.level is Level.SKIP
    assert "cluster_ports, or network = host" in check.message


def test_a_host_where_nothing_is_deployed() -> None:
    assert of_both(one("gpu01"), one("gpu02", env=None)).level is Level.SKIP


OWN = {"addresses": (("eth0", "10.0.0.1"),)}
AGAINST: list[tuple[dict[str, Any], str, str]] = [
    ({"settings": {}}, "no other host can reach a worker in the container on gpu02", "deploy --hosts gpu02"),
    ({"env": "e2"}, "the environment of gpu02 is not that of gpu01", "orch deploy --hosts gpu01,gpu02"),
    (
        {"settings": {**SPAN, "cluster_address": "10.0.0.2"}, "system": OWN},
        "10.0.0.2 is none of gpu02's addresses", "Correct cluster_address (hosts.ini:3).",
    ),
    (
        {"settings": {**SPAN, "network": "host"}, "system": {"ports": frozenset({20000, 20002})}},
        "1 port of cluster_ports free on gpu02", "Write more of them (hosts.ini:4)",
    ),
    ({"system": {"time": 1060.0}}, "the clock of gpu02 is 58 s ahead of that of gpu01", "NTP"),
    ({"system": {"time": 940.0}}, "the clock of gpu02 is 58 s behind that of gpu01", "NTP"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message", "hint"), AGAINST, ids=[message for _, message, _ in AGAINST])
def test_what_stands_against_it(change: dict[str, Any], message: str, hint: str) -> None:
    check = of_both(one("gpu01"), one("gpu02", **change))
    assert check.level is Level.WARN
    assert check.message.startswith(f"group lab (gpu01, gpu02): {message}")
    assert hint in (check.hint or "")


def test_of_several_groups_what_is_wrong_is_shown() -> None:
    hosts = [one("gpu01", ("a", "b")), one("gpu02", ("a",)), one("gpu03", ("b",), env="e2")]
    found = together(hosts)
    assert [found[f"gpu0{n}"].level for n in (1, 2, 3)] == [Level.WARN, Level.OK, Level.WARN]


def test_a_clock_within_five_seconds() -> None:
    assert of_both(one("gpu01"), one("gpu02", system={"time": 1006.0})).level is Level.OK
