"""The checks on several hosts, through a real sh and real sockets: this machine is each of them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.ready import NoEnvironment
from orchestrator.errors import Busy, HostError, Refused
from orchestrator.inventory import Settings
from orchestrator.run.checks import look, network_env, reach, settled
from orchestrator.run.checks.reach import ways
from orchestrator.run.cluster import Cluster
from tests.unit.deploys import IDENTITY
from tests.unit.here import Here
from tests.unit.meeting import Meeting, free_span, listening
from tests.unit.shells import SHELLS


@pytest.fixture
def meet(tmp_path: Path) -> Callable[..., Meeting]:
    def made(*settings: dict[str, Any]) -> Meeting:
        return Meeting(tmp_path, *(settings or ({}, {})))

    return made


def test_a_look_says_what_a_worker_would_find(meet: Callable[..., Meeting]) -> None:
    chief, other = meet().looks()
    assert (chief.host, chief.env, chief.bundle, other.link) == ("gpu01", "e1", True, 0)
    assert len({chief.port, chief.link, other.port}) == 3
    assert any(package.startswith("jinja2==") for package in chief.packages)
    assert ("lo", "127.0.0.1") in chief.network.own
    assert chief.clock
    assert -1 < chief.clock.least <= 0 <= chief.clock.most < 1


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_look_and_a_reach_by_any_sh(meet: Callable[..., Meeting], tmp_path: Path, shell: list[str]) -> None:
    meeting = meet()
    for host in meeting.hosts:
        machine = Here(tmp_path, *shell)
        machine.host = host
        meeting.machines[host.name] = machine
    looks = meeting.looks()
    assert ("lo", "127.0.0.1") in looks[0].network.own
    assert looks[0].clock
    assert reach(meeting.machines, looks, settled(meeting.cluster, looks)).complaints == []


def test_code_that_is_not_there(meet: Callable[..., Meeting]) -> None:
    assert not meet().look(1, bundle="b2").bundle


def test_nothing_is_deployed(meet: Callable[..., Meeting]) -> None:
    meeting = meet()
    for file in meeting.folder(1).glob("hosts/*/environment.sh"):
        file.unlink()
    with pytest.raises(NoEnvironment, match="orch deploy --hosts gpu02"):
        meeting.look(1)


def test_an_installation_that_is_gone(meet: Callable[..., Meeting]) -> None:
    meeting = meet()
    (meeting.folder(0) / "whole").unlink()
    with pytest.raises(NoEnvironment, match="is gone"):
        meeting.look(0)


def test_an_environment_without_python(meet: Callable[..., Meeting]) -> None:
    meeting = meet({"enter": "echo 'python3: not found' >&2; exit 127\n"}, {})
    with pytest.raises(HostError, match=r"answer: python3: not found. It needs python3 .3.6 or"):
        meeting.look(0)


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_somebody_listens_on_is_passed_over(
    meet: Callable[..., Meeting], family: int, address: str
) -> None:
    ports = free_span(3)
    meeting = meet({"cluster_ports": f"{ports[0]}-{ports[-1]}"}, {})
    with listening(ports[1], family, address):
        found = meeting.look(0)
    assert {found.port, found.link} == {ports[0], ports[2]}


@pytest.mark.parametrize("index", range(3))
def test_a_port_that_a_run_holds_is_passed_over(meet: Callable[..., Meeting], index: int) -> None:
    ports = free_span(3)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(f"\0orch-port-{ports[index]}")
        found = meet({"cluster_ports": f"{ports[0]}-{ports[-1]}"}, {}).look(0)
    assert {found.port, found.link} == {*ports} - {ports[index]}


def test_no_port_is_free(meet: Callable[..., Meeting]) -> None:
    ports = free_span(2)
    meeting = meet({"cluster_ports": f"{ports[0]}-{ports[-1]}"}, {})
    with listening(ports[0]), pytest.raises(Busy) as error:
        meeting.look(0)
    assert f"only one port is free of cluster_ports {ports[0]}-{ports[-1]}" in str(error.value)


def test_workers_on_one_machine_get_ports_of_their_own(meet: Callable[..., Meeting]) -> None:
    ports = free_span(4)
    span = {"cluster_ports": f"{ports[0]}-{ports[-1]}"}
    chief, second, third = meet(dict(span), dict(span), dict(span)).looks()
    assert {chief.port, chief.link, second.port} <= {*ports}
    assert len({chief.port, chief.link, second.port}) == 3
    assert third.port in ports


def test_each_reaches_each(meet: Callable[..., Meeting]) -> None:
    meeting = meet({}, {}, {})
    looks = meeting.looks()
    matrix = reach(meeting.machines, looks, settled(meeting.cluster, looks))
    assert matrix.complaints == []
    assert {(p.source, p.target, p.how) for p in matrix.pairs} == {
        (s, t, "ok") for s in range(3) for t in range(3) if s != t
    }
    assert matrix.line == "reach   each of 3 hosts reaches each, from environment to environment"


def test_the_proved_ports_are_free_afterwards(meet: Callable[..., Meeting]) -> None:
    """Also for who binds without SO_REUSEADDR: no connection is left that this side has closed."""
    meeting = meet()
    looks = meeting.looks()
    assert not reach(meeting.machines, looks, settled(meeting.cluster, looks)).complaints
    for port in (port for seen in looks for port in seen.listens):
        with socket.socket() as server:
            server.bind(("", port))


def test_a_port_that_is_taken_between_look_and_reach(meet: Callable[..., Meeting]) -> None:
    meeting = meet()
    looks = meeting.looks()
    with listening(looks[1].port):
        matrix = reach(meeting.machines, looks, settled(meeting.cluster, looks), window=1)
    (error,) = matrix.complaints
    assert isinstance(error, Busy)
    assert str(error) == f"gpu02: port {looks[1].port} was taken by another in the meantime. Try again."


def test_an_address_at_which_nobody_is(meet: Callable[..., Meeting]) -> None:
    meeting = meet()
    looks = meeting.looks()
    member = replace(looks[1].member, address="192.0.2.77", given=True)
    looks[1] = replace(looks[1], member=member, sources={"cluster_address": "hosts.ini:2"})
    cluster = Cluster((looks[0].member, member))
    matrix = reach(meeting.machines, looks, cluster, window=2)
    (error,) = matrix.complaints
    assert str(error).startswith(f"gpu01: can't reach gpu02 at 192.0.2.77:{looks[1].port}")
    assert "192.0.2.77 is none of gpu02's addresses: " in str(error)
    assert str(error).endswith("Correct cluster_address (hosts.ini:2).")
    assert matrix.line == "reach   1 of 3 ways failed, from environment to environment"


def test_a_way_that_outlasts_the_window_has_failed(meet: Callable[..., Meeting], tmp_path: Path) -> None:
    """As the look-up of a name may: what never came back is no success."""
    late = "import socket, time\nsocket.create_connection = lambda *words: time.sleep(30)\n"
    (tmp_path / "sitecustomize.py").write_text(late)
    enter = f'export PYTHONPATH={tmp_path}\ncd "$1" && shift && exec "$@"\n'
    meeting = meet({"enter": enter}, {})
    looks = meeting.looks()
    matrix = reach(meeting.machines, looks, settled(meeting.cluster, looks), window=1)
    assert {(p.source, p.target, p.port, p.how) for p in matrix.pairs if p.source == 0} == {
        (0, 1, looks[1].port, "timeout")
    }
    assert "can't reach gpu02" in str(matrix.complaints[0])


def test_a_way_of_which_a_host_says_nothing_has_failed(meet: Callable[..., Meeting]) -> None:
    looks = meet().looks()
    ok = [1, looks[1].port, "ok", ""]
    assert [pair.how for pair in ways(0, looks, [ok])] == ["ok"]
    assert [pair.how for pair in ways(0, looks, [])] == ["timeout"]
    assert len(ways(1, looks, [])) == 2  # the chief's link too


def test_a_host_that_can_not_be_asked(meet: Callable[..., Meeting]) -> None:
    meeting = meet()
    looks = meeting.looks()
    (meeting.folder(1) / "enter").write_text("echo no container >&2; exit 1\n")
    matrix = reach(meeting.machines, looks, settled(meeting.cluster, looks), window=1)
    assert [str(c) for c in matrix.complaints] == ["gpu02: the ports could not be tried: no container"]


def test_an_environment_that_talks(meet: Callable[..., Meeting]) -> None:
    """As `activate` may, on stderr: before a command and behind it."""
    talking = "echo '{Loading cuda/11.2}' >&2; trap 'echo bye >&2' EXIT; cd \"$1\" && shift && \"$@\"\n"
    meeting = meet({"enter": talking}, {})
    looks = meeting.looks()
    assert reach(meeting.machines, looks, settled(meeting.cluster, looks)).complaints == []


def test_what_the_person_has_set_is_left_to_them(meet: Callable[..., Meeting]) -> None:
    found = meet({"cluster_address": "10.0.0.1"}, {"cluster_address": "10.0.0.2"}).look(0)
    network = replace(found.network, own=(("eth0", "10.0.0.1"),))
    found = replace(found, network=network, variables=())
    assert network_env(found, Settings()) == {"NCCL_SOCKET_IFNAME": "eth0"}
    assert network_env(found, Settings(env={"NCCL_SOCKET_IFNAME": "ib0"})) == {}
    assert network_env(replace(found, variables=("NCCL_SOCKET_IFNAME",)), Settings()) == {}


def test_somebody_elses_environment_is_refused(meet: Callable[..., Meeting]) -> None:
    meeting = meet()
    order = replace(meeting.order(0), identity=IDENTITY)
    with pytest.raises(Refused):
        look(meeting.machines["gpu01"], order, meeting.cluster.members[0], meeting.cluster)
