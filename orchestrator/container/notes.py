"""What a person should know before saying yes to a deploy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.container.action import BESIDE, REPLACE
from orchestrator.container.cluster_ports import cluster_notes
from orchestrator.container.engine import Environment
from orchestrator.container.ground import ground_notes, room_notes
from orchestrator.container.identity import Identity
from orchestrator.container.image.recipe import index_has_password
from orchestrator.container.image.source import IGNORE, Source
from orchestrator.container.plan import Plan
from orchestrator.container.spec import ContainerSpec, Facts
from orchestrator.inventory import Host


def notes(
    plan: Plan, host: Host, identity: Identity, facts: Facts, recorded: Environment | None
) -> Iterator[str]:
    """Yield the notes of a plan; `recorded` is what was deployed last."""
    yield from _of_the_deploy(plan, host)
    yield from cluster_notes(plan.spec, facts.system)
    yield from _of_the_engine(host, plan.spec, facts, recorded)
    yield from _elsewhere(identity, recorded, plan.action)
    yield from ground_notes(facts.place.mount)
    yield from room_notes(facts.system.root_disk)
    yield from _about_context(plan.recipe.source if plan.image.build else None)


def passed_over(host: Host, unused: Sequence[str]) -> Iterator[str]:
    """Yield a word on the settings that are set, of those that an engine has no use for."""
    found = [name for name in unused if getattr(host.settings, name)]
    if found:
        yield f"{', '.join(found)}: not for engine {host.settings.engine}, passed over"


def _of_the_deploy(plan: Plan, host: Host) -> Iterator[str]:
    runs = ", ".join(r.run for r in plan.live)
    if plan.live and plan.action == REPLACE:
        yield f"--replace ends {runs}"
    if plan.live and plan.action == BESIDE:
        yield f"{runs} goes on in the old container, which a deploy after its end removes"
    if not plan.keys:
        yield "no public key is known: nobody can log in by ssh. Set authorized_keys in hosts.ini"
    yield from passed_over(host, ("activate", "python"))
    if index_has_password(host.settings):
        yield "pip_index holds a password, which stays readable in the image's history on the host"


def _of_the_engine(
    host: Host, spec: ContainerSpec, facts: Facts, recorded: Environment | None
) -> Iterator[str]:
    """Yield what this engine can't do, and what another one left, of which it sees nothing."""
    if (spec.memory or spec.cpus) and not facts.docker.limits:
        yield f"memory and cpus have no effect: rootless {spec.engine} has no cgroups of its own there"
    if recorded and recorded.in_container and recorded.engine != spec.engine:
        how = f"ORCH_ENGINE={recorded.engine} orch down --hosts {host.name}, before this"
        yield f"container {recorded.name} of {recorded.engine} stays where it is; to remove it: {how}"


def _about_context(source: Source | None) -> Iterator[str]:
    """Yield what changes with every commit, or may hold secrets, and is sent to be built of."""
    found = ", ".join(name for name in (".git", ".env", "hosts.ini") if source and source.holds(name))
    if found and source:
        yield f"the build context holds {found}: put into {IGNORE} what the image need not have"


def _elsewhere(identity: Identity, recorded: Environment | None, action: str) -> Iterator[str]:
    """Yield a word on a container that would be replaced from another machine than it was made from."""
    there = recorded.folder.partition(":")[0] if recorded else None
    if recorded and action in (REPLACE, BESIDE) and there != identity.folder.partition(":")[0]:
        yield f"deployed from {recorded.folder} before: if that is another project, set `project` or `person`"
