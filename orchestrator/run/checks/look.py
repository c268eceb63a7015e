"""What a host says of the part it would have in a run on several hosts: one exec."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestrator.container.engine import Environment
from orchestrator.container.identity import check_owner
from orchestrator.container.ready import no_environment
from orchestrator.container.start import answers
from orchestrator.container.turn import LOCK
from orchestrator.errors import Busy, HostError
from orchestrator.facts.lines import json_object
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.inventory import Host, Settings
from orchestrator.render import render, source
from orchestrator.run.checks.network import Network, network
from orchestrator.run.cluster import Cluster, Member, is_ip, is_loopback

if TYPE_CHECKING:
    from orchestrator.run.launch import Order

DEADLINE = 300.0
"""Seconds for a look: a stopped container is started first, a deploy is waited for."""

ANY_PORT = range(20_000, 32_000)
"""Where ports are drawn from when any will do: below those that systems give to connections."""

_DRAWN = 64


@dataclass(frozen=True)
class Clock:
    """A host's clock against this machine's, in seconds ahead: between `least` and `most`."""

    least: float
    most: float


@dataclass(frozen=True)
class Look:
    """What one host answered. `port` is for its worker, `link` (0 but for the chief) for its supervisor."""

    host: str
    member: Member  # with its address where the host has one
    environment: Environment
    bundle: bool  # the code is there
    port: int
    link: int
    network: Network
    packages: tuple[str, ...] = ()  # name==version of what is installed now
    clock: Clock | None = None
    boot: str = ""
    variables: tuple[str, ...] = ()  # names of NCCL_* and TF_* that the environment has
    sources: Mapping[str, str] = field(default_factory=dict)  # of its settings

    @property
    def env(self) -> str:
        """orch.env: what makes two hosts' environments the same."""
        return self.environment.env

    @property
    def ports(self) -> tuple[int, ...]:
        """What the worker may listen on; empty: any port."""
        return self.member.ports

    @property
    def listens(self) -> tuple[int, ...]:
        """The ports that the others have to reach."""
        return tuple(port for port in (self.port, self.link) if port)


def look(machine: Machine, order: Order, member: Member, cluster: Cluster) -> Look:
    """Ask a host. Raises NoEnvironment, Busy (a deploy, no free port), Refused or HostError."""
    host, rank = machine.host, cluster.members.index(member)
    text = _script(order, member, cluster, rank)
    before = time.time()
    result = machine.run(Script("look", text), deadline=DEADLINE)
    after = time.time()
    answer = answers(result.text)
    environment = _environment(host, answer, result.complaint)
    if order.identity:
        check_owner(order.identity, vars(environment), where=host.name)
    inside = spoken(answer.get("inside", ""))
    if not inside:
        said = answer.get("inside", "").strip().splitlines() or [result.complaint]
        raise HostError(f"the environment does not answer: {said[-1]}", where=host.name, hint=_PYTHON)
    found = network(answer, str(inside.get("interface", "")))
    port, link = _drawn(host, member, inside.get("free", []), rank)
    return Look(
        host=host.name,
        member=member if member.given else replace(member, address=_address(host, cluster, found)),
        environment=environment,
        bundle=answer.get("bundle") == "yes",
        port=port,
        link=link,
        network=found,
        packages=tuple(inside.get("packages", ())),
        clock=_clock(answer, before, after),
        boot=answer.get("boot", ""),
        variables=tuple(inside.get("set", ())),
        sources=host.sources,
    )


def settled(cluster: Cluster, looks: Sequence[Look]) -> Cluster:
    """Return the cluster with the addresses that its hosts gave. Raises HostError where one has none."""
    return cluster.at([seen.member.address for seen in looks])


def network_env(seen: Look, settings: Settings) -> dict[str, str]:
    """Return what NCCL has to know of a host's network. What the person has set is left to them."""
    name = "NCCL_SOCKET_IFNAME"
    if name in settings.env or name in seen.variables:
        return {}
    chosen = seen.network.interfaces(seen.member)
    return {name: seen.network.for_nccl(chosen)} if chosen else {}


def spoken(text: str) -> dict[str, Any]:
    """Return the last line that is a JSON object: `activate` and Python may talk on stderr around it."""
    found = (json_object(line) for line in reversed(text.splitlines()) if line.startswith("{"))
    return next((one for one in found if one), {})


_PYTHON = "It needs python3 (3.6 or newer)."


def _script(order: Order, member: Member, cluster: Cluster, rank: int) -> str:
    ways = {r: m.candidate for r, m in enumerate(cluster.members) if r != rank and m.candidate}
    asked = {"ports": _candidates(order.spec.run, member), "count": 2 * (rank + 1)}
    inner = render(
        "checks/look.py.j2",
        asked=asked,
        installed=source("supervisor/installed.py") or "",
        ports=source("checks/ports.py") or "",
    )
    place = on_host(order.place).text
    values = {
        "place": place,
        "bundle": order.spec.bundle,
        "ways": ways,
        "turn": LOCK,
        "script": inner.strip(),
    }
    return render("checks/look.sh.j2", **values)


def _candidates(run: str, member: Member) -> list[int]:
    """Return ports in an order that is the run's own: two runs that start at once rarely want the same."""
    drawn = random.Random(run)
    return drawn.sample(member.ports, len(member.ports)) if member.ports else drawn.sample(ANY_PORT, _DRAWN)


def _drawn(host: Host, member: Member, free: Sequence[int], rank: int) -> tuple[int, int]:
    """Return the worker's port and, for the chief, its link's: those that no lower rank of the machine takes.

    The free ports of members on one machine are the same in the same order; so each takes its own.
    """
    needed = 1 if rank else 2
    mine = [*free[2 * rank :], *free[: 2 * rank]]
    if len(mine) < needed:
        span = host.settings.cluster_ports
        what = f"of cluster_ports {span}" if member.ports else "of those that were tried"
        few = "only one port is free" if mine else "no port is free"
        more = f"See: orch ps {host.name}; or write more of them ({host.came_from('cluster_ports')})"
        raise Busy(f"{few} {what}", where=host.name, hint=f"{more}, and deploy." if member.ports else None)
    return mine[0], 0 if rank else mine[1]


def _environment(host: Host, answer: Mapping[str, str], complaint: str) -> Environment:
    how, why = answer.get("answer", ""), answer.get("why", "")
    if how == "deploying":
        raise Busy(
            f"a {why or 'deploy or down'} is going on", where=host.name, hint="Try again when it is done."
        )
    if how != "there" and how:
        raise no_environment(host, how, why)
    found = Environment.read(answer.get("environment"))
    if not found:
        raise HostError(f"the look gave no answer: {complaint}", where=host.name)
    return found


def _address(host: Host, cluster: Cluster, found: Network) -> str:
    """Return where the others reach a host, by what it says itself."""
    if cluster.one_machine:
        return "127.0.0.1"
    return next(_addresses(host, found), "")


def _addresses(host: Host, found: Network) -> Iterator[str]:
    yield from found.sources
    if host.connection != "local" and found.usable(found.ssh):
        yield found.ssh
    if is_ip(host.address) and not is_loopback(host.address):
        yield host.address
    if found.usable(found.out):
        yield found.out


def _clock(answer: Mapping[str, str], before: float, after: float) -> Clock | None:
    """Compare clocks: the host read its own at the begin and at the end of the script, we ours around it."""
    try:
        began, ended = (
            float(answer.get(key, "").removesuffix(".%N").rstrip(".")) for key in ("began", "ended")
        )
    except ValueError:
        return None
    whole = 0.0 if "." in answer["began"].removesuffix(".%N").rstrip(".") else 1.0  # busybox has no %N
    return Clock(ended - after, began + whole - before)
