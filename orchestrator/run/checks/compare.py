"""What stands against a run on several hosts before any of them is bound to another. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from orchestrator.container.engine import Environment
from orchestrator.errors import ConfigError, HostError, OrchError
from orchestrator.run.checks.look import Clock, Look
from orchestrator.run.checks.network import same
from orchestrator.run.cluster import SKEW, is_loopback
from orchestrator.units import duration

_SHOWN = 6
"""Packages that a line names."""

_DECISIVE = frozenset(
    ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "keras", "numpy", "protobuf", "torch")
)
"""Packages in which workers of one environment must not differ: what they send each other comes of these."""

_SKIP = "or train all the same: --skip-checks"


def compare(looks: Sequence[Look]) -> list[OrchError]:
    """Return what is not as the first host has it, what is not deployed as it is set, and clocks apart."""
    complaints: list[OrchError] = [c for seen in looks for c in _not_deployed(seen)]
    for seen in looks[1:]:
        complaints += _environments(looks[0], seen)
        complaints += _clocks(looks[0], seen)
    return complaints


def notes(looks: Sequence[Look]) -> list[str]:
    """Return what differs and stands against nothing: packages that somebody put into one of the homes."""
    first = looks[0]
    said = []
    for seen in looks[1:]:
        names = _differing(first, seen)
        if names and not names & _DECISIVE and first.environment.env == seen.environment.env:
            said.append(f"{seen.host} has other packages by hand: {_packages(first, seen, names)}")
    return said


def _not_deployed(seen: Look) -> Iterator[OrchError]:
    """Yield what the settings say of the container's network, and it has not."""
    member, environment = seen.member, seen.environment
    again = f"To have it: orch deploy --hosts {seen.host}"
    bridge = environment.in_container and environment.network == "bridge"
    if environment.in_container and bridge != member.bridge:
        is_now, wanted = ("bridge", "host") if bridge else ("host", "bridge")
        where = seen.sources.get("network", seen.host)
        yield ConfigError(
            f"network = {wanted}, and the container on {seen.host} has network {is_now}",
            where=where,
            hint=again,
        )
    elif member.bridge and seen.network.published is not None and not is_loopback(member.address):
        shut = [port for port in seen.listens if not _open(seen, port)]
        if shut:
            yield ConfigError(_unpublished(seen, shut[0]), where=seen.host, hint=again)


def _open(seen: Look, port: int) -> bool:
    """Whether the container's port is published where the others come to."""
    address = seen.member.address
    every = "::" if ":" in address else "0.0.0.0"
    at = (seen.network.published or {}).get(port, ())
    return any(one == every or same(one, address) for one in at)


def _unpublished(seen: Look, port: int) -> str:
    at = (seen.network.published or {}).get(port, ())
    if at:
        return f"the container publishes port {port} on {', '.join(at)}, not on {seen.member.address}"
    return f"the container does not publish port {port}, which is one of cluster_ports"


def _environments(first: Look, seen: Look) -> Iterator[OrchError]:
    ours, theirs = first.environment, seen.environment
    differing = _differing(first, seen)
    packages = _packages(first, seen, differing)
    if ours.env == theirs.env:
        if differing & _DECISIVE:
            hint = f"What all shall have belongs into requirements (then orch deploy); {_SKIP}."
            yield HostError(f"packages by hand: {packages}", where=seen.host, hint=hint)
        return
    said = [f"{what} {b}, {first.host} {a}" for what, a, b in _facts(ours, theirs) if a != b]
    what = "; ".join([*said, packages] if packages else said) or "the image was built otherwise"
    yield HostError(
        f"its environment is not that of {first.host}: {what}",
        where=seen.host,
        hint=f"{_equal(first, seen)}; {_SKIP}.",
    )


def _facts(ours: Environment, theirs: Environment) -> Iterator[tuple[str, str, str]]:
    for what, name in (
        ("engine", "engine"),
        ("image", "image"),
        ("Python", "python"),
        ("TensorFlow", "tensorflow"),
        ("PyTorch", "torch"),
    ):
        yield what, str(getattr(ours, name) or "none"), str(getattr(theirs, name) or "none")
    if ours.image == theirs.image:
        a, b = ((e.base_id or "").removeprefix("sha256:")[:12] for e in (ours, theirs))
        yield "base image", a or "unknown", b or "unknown"


def _differing(first: Look, seen: Look) -> set[str]:
    """Return the names of the packages that differ; none where a host doesn't know its own."""
    ours, theirs = _versions(first), _versions(seen)
    if not ours or not theirs:
        return set()
    return {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}


def _packages(first: Look, seen: Look, names: Set[str]) -> str:
    """Say how packages differ, those that decide first: `numpy 1.23.5 (gpu01: 1.22.4), wandb none (...)`."""
    ours, theirs = _versions(first), _versions(seen)
    order = sorted(names, key=lambda name: (name not in _DECISIVE, name))
    said = [f"{n} {theirs.get(n, 'none')} ({first.host}: {ours.get(n, 'none')})" for n in order[:_SHOWN]]
    more = [f"and {len(names) - _SHOWN} more"] * (len(names) > _SHOWN)
    return ", ".join(said + more)


def _versions(seen: Look) -> dict[str, str]:
    return dict(_split(package) for package in seen.packages)


def _split(package: str) -> tuple[str, str]:
    name, _, version = package.partition("==")
    return name, version


def _equal(first: Look, seen: Look) -> str:
    """Say how to make two environments the same: one recipe built twice needs the first one's packages."""
    both = f"{first.host},{seen.host}"
    if first.environment.tag and first.environment.tag == seen.environment.tag:
        return f"To make them equal: orch image lock {first.host}, then orch deploy --locked --hosts {both}"
    return (
        f"To make them equal: the same image and requirements in hosts.ini, then orch deploy --hosts {both}"
    )


def _clocks(first: Look, seen: Look) -> Iterator[OrchError]:
    if not first.clock or not seen.clock:
        return
    apart = _apart(first.clock, seen.clock)
    if abs(apart) > SKEW:
        which = "behind" if apart < 0 else "ahead of"
        message = f"its clock is {duration(abs(apart))} {which} that of {first.host}"
        hint = f"Turn on NTP on both (timedatectl set-ntp true); {_SKIP}."
        yield HostError(message, where=seen.host, hint=hint)


def _apart(one: Clock, other: Clock) -> float:
    """Return by how many seconds `other` is ahead at least; below 0: behind; 0 where they may be equal."""
    return max(other.least - one.most, 0) or min(other.most - one.least, 0)
