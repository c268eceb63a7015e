"""Whether several hosts could train together: addresses, ports, environments and clocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.container.cluster_ports import takes_part
from orchestrator.container.engine import Environment
from orchestrator.doctor.check import Check, Examined, ok, skip, warn
from orchestrator.errors import OrchError
from orchestrator.run.cluster import SKEW, Cluster, Member, cluster_of
from orchestrator.units import duration, how_many

NAME = "together"


def together(seen: Sequence[Examined]) -> dict[str, Check]:
    """Return a check for each host that shares a group with another one that answered, by its name.

    Hosts that share no group are taken for one where none of them does.
    """
    found: dict[str, Check] = {}
    for group, members in _groups(seen).items():
        check = _check(group, members)
        for one in members:
            known = found.get(one.host.name)
            if known is None or _rank(check) > _rank(known):
                found[one.host.name] = check
    return found


def _rank(check: Check) -> int:
    """Of a host in several groups what is wrong is shown, else what works."""
    return ("skip", "ok", "warn").index(check.level.value)


def _groups(seen: Sequence[Examined]) -> Mapping[str, list[Examined]]:
    """Return the hosts of each group of two or more; groups of the same hosts once."""
    groups: dict[str, list[Examined]] = {}
    for one in seen:
        for name in one.host.groups:
            if name not in ("all", "ungrouped"):
                groups.setdefault(name, []).append(one)
    several = {tuple(m.host.name for m in members): name for name, members in groups.items() if members[1:]}
    if not several and seen[1:]:
        return {"": list(seen)}
    return {name: groups[name] for name in several.values()}


def _check(group: str, members: Sequence[Examined]) -> Check:
    names = ", ".join(m.host.name for m in members[:4]) + (", ..." if members[4:] else "")
    of = f"group {group} ({names})" if group else names
    if not any(takes_part(m.host.settings) or not m.host.settings.in_container for m in members):
        return skip(NAME, f"{of}: not set up for runs on several hosts (cluster_ports, or network = host)")
    try:
        cluster = cluster_of([m.host for m in members])
    except OrchError as error:
        return warn(NAME, f"{of}: {error.message}", error.hint)
    missing = [m.host.name for m in members if not Environment.read(m.place.environment)]
    if missing:
        return skip(NAME, f"{of}: nothing is deployed on {', '.join(missing)}")
    for message, hint in _against(members, cluster):
        return warn(NAME, f"{of}: {message}", hint)
    ports = "any port" if not any(m.ports for m in cluster.members) else "cluster_ports"
    how = "by published ports" if cluster.members[0].bridge else "by the hosts' network"
    return ok(NAME, f"{of} could train together: the same environment, {ports} {how}")


def _against(members: Sequence[Examined], cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield what stands against it, each with what to do."""
    for seen, member in zip(members, cluster.members, strict=True):
        yield from _address(seen, member)
        yield from _ports(seen, member)
    yield from _environments(members)
    yield from _clocks(members)


def _address(seen: Examined, member: Member) -> Iterator[tuple[str, str]]:
    own = [address for _, address in seen.system.addresses]
    if member.given and own and ":" not in member.address and member.address not in own:
        place = seen.set_in("cluster_address")
        yield (
            f"{member.address} is none of {member.host}'s addresses",
            f"Correct cluster_address{place}.",
        )


def _ports(seen: Examined, member: Member) -> Iterator[tuple[str, str]]:
    """Look at the host's own ports; those of a bridge are in use by the engine, which publishes them."""
    free = set(member.ports) - seen.system.ports
    if member.ports and not member.bridge and len(free) < 2:
        place = seen.set_in("cluster_ports")
        said = f"{how_many(len(free), 'port')} of cluster_ports free on {member.host}"
        yield said, f"Write more of them{place}, or see who has them: ss -ltnp"


def _environments(members: Sequence[Examined]) -> Iterator[tuple[str, str]]:
    found = {m.host.name: Environment.read(m.place.environment) for m in members}
    envs = {name: environment.env for name, environment in found.items() if environment}
    first, *others = envs
    names = ",".join(found)
    for name in others:
        if envs[name] != envs[first]:
            hint = f"What differs, says train; to make them equal: orch deploy --hosts {names}"
            yield f"the environment of {name} is not that of {first}", hint


def _clocks(members: Sequence[Examined]) -> Iterator[tuple[str, str]]:
    """Compare what the clocks are at least apart: each was read at some time between two readings of ours."""
    spans = [(m.host.name, _ahead(m)) for m in members]
    known = [(name, span) for name, span in spans if span]
    for name, (least, most) in known[1:]:
        first, (low, high) = known[0]
        apart = max(least - high, 0) or min(most - low, 0)
        if abs(apart) > SKEW:
            which = "behind" if apart < 0 else "ahead of"
            said = f"the clock of {name} is {duration(abs(apart))} {which} that of {first}"
            yield said, "Turn on NTP on both."


def _ahead(seen: Examined) -> tuple[float, float] | None:
    time, (before, after) = seen.system.time, seen.asked
    return None if time is None else (time - after, time - before)
