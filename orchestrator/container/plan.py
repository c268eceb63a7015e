"""What a deploy would do: the wanted spec against what the host holds. Pure: it asks and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.container.by_hand import by_hand, find, old_name
from orchestrator.container.difference import Difference, differences
from orchestrator.container.engine import Environment
from orchestrator.container.ground import ground_notes, room_notes
from orchestrator.container.identity import Identity, check_owner
from orchestrator.container.image import Recipe, index_has_password
from orchestrator.container.refusals import check_place, check_root, check_seen, check_volumes
from orchestrator.container.source import IGNORE, Source
from orchestrator.container.spec import SSH_PORT, ContainerSpec, Facts
from orchestrator.errors import Busy, ConfigError, Refused
from orchestrator.facts.docker import Container, Image
from orchestrator.facts.place import LiveRun
from orchestrator.inventory import Host
from orchestrator.inventory.host import CONTAINER_ENGINES

CREATE, REPLACE, BESIDE, START, PROVE, KEEP = "create", "replace", "beside", "start", "prove", "unchanged"
UNPAUSE = "unpause"
"""What is done to the container. `beside`: a run lives in the old one; `prove`: a deploy was cut short."""


@dataclass(frozen=True)
class Plan:
    """The steps of one host's deploy."""

    spec: ContainerSpec
    recipe: Recipe
    tag: str  # the image's name on the host
    port: int
    action: str
    old: Container | None = None  # what has our name now
    live: tuple[LiveRun, ...] = ()  # in `old`
    pull: bool = False
    build: bool = False
    build_base: bool = False  # of the team's own Dockerfile
    keys: tuple[str, ...] = ()  # lines of authorized_keys
    keys_change: bool = False
    leftovers: tuple[Container, ...] = ()  # replaced before, without a run now
    changes: tuple[Difference, ...] = ()
    by_hand: tuple[Difference, ...] = ()  # what somebody changed on the host since the last deploy
    notes: tuple[str, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Whether nothing is to be done."""
        return self.action == KEEP and not self.keys_change and not self.leftovers

    def stands(self, now: Plan) -> bool:
        """Whether a plan made anew is the same; the image may be there by now, and runs may have ended."""
        then = replace(
            self, pull=now.pull, build=now.build, build_base=now.build_base, live=now.live, notes=now.notes
        )
        return then == now and {r.run for r in now.live} <= {r.run for r in self.live}


def make_plan(
    host: Host,
    identity: Identity,
    facts: Facts,
    spec: ContainerSpec,
    recipe: Recipe,
    *,
    keys: Sequence[str] = (),
    replace: bool = False,
) -> Plan:
    """Compare what is wanted with what is there.

    Raises ConfigError, Refused, Busy or HostError where the host can't or must not have it.
    """
    check_place(host, identity, facts.place)
    check_root(host, facts.place, facts.system)
    check_seen(host, facts)
    check_volumes(host, facts.place)
    recorded = Environment.read(facts.place.environment)
    old = find(spec.name, facts.docker.containers, recorded)
    if old:
        check_ours(host, identity, old)
    changed = by_hand(spec.name, old, recorded, facts.docker.images)
    changes = differences(_recorded(old), asdict(spec), recipe.source) if old else ()
    live = facts.place.inside(old.id) if old and old.running else ()
    action = _action(old, (*changes, *changed), facts, live=bool(live) and not replace)
    wanted_keys = _keys(facts, keys)
    tag = recipe.tag(identity)
    images = facts.docker.images
    build = action in (CREATE, REPLACE, BESIDE) and not _is_there(images, tag, "orch.recipe", recipe.digest)
    source = recipe.source
    missing = build and recipe.base not in images
    if missing and recipe.base.startswith("sha256:"):
        raise ConfigError(
            f"there is no image {recipe.base} on {host.name}",
            where=host.came_from("image"),
            hint="See there: docker images --no-trunc. What a registry has is called NAME@sha256:...",
        )
    return Plan(
        spec=spec,
        recipe=recipe,
        tag=tag,
        port=_port(host, spec, facts, old, action),
        action=action,
        old=old,
        live=live,
        pull=missing and not source,
        build=build,
        build_base=bool(build and source)
        and not _is_there(images, recipe.base, "orch.source", source.digest if source else ""),
        keys=wanted_keys,
        keys_change=wanted_keys != facts.place.placed_keys and action in (KEEP, START, UNPAUSE, PROVE),
        leftovers=tuple(_leftovers(spec.name, facts)),
        changes=changes,
        by_hand=changed,
        notes=(
            *_notes(host, spec, wanted_keys, live, action),
            *_of_the_engine(host, spec, facts),
            *_elsewhere(identity, recorded, action),
            *ground_notes(facts.place.mount),
            *room_notes(facts.system.root_disk),
            *_about_context(source if build else None),
        ),
    )


def _is_there(images: Mapping[str, Image], name: str, label: str, digest: str) -> bool:
    """Whether an image is what its name says, and not another one under the name."""
    image = images.get(name)
    return bool(image and image.labels.get(label) == digest)


def check_ours(host: Host, identity: Identity, old: Container) -> None:
    """Raise Refused when a container of our name is not ours: another tool's, person's or project's."""
    if not old.ours:
        raise Refused(
            f"a container named {old.name} is there that orch did not make, and it is not touched",
            where=host.name,
            hint="Rename it, or set another `project` in hosts.ini.",
        )
    labels = {key: old.labels.get(f"orch.{key}", "") for key in ("person", "project", "folder")}
    check_owner(identity, labels, where=host.name)


def _recorded(old: Container) -> Mapping[str, Any]:
    try:
        found = json.loads(old.labels.get("orch.spec", ""))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _action(old: Container | None, changes: Sequence[Difference], facts: Facts, *, live: bool) -> str:
    if not old:
        return CREATE
    if changes:
        return BESIDE if live else REPLACE
    if old.paused:
        return UNPAUSE
    if not old.running:
        return START
    return KEEP if _is_recorded(old, facts.place.environment) else PROVE


def _is_recorded(old: Container, environment: str | None) -> bool:
    try:
        return bool(json.loads(environment or "{}").get("container") == old.id)
    except (ValueError, AttributeError):
        return False


def _of_the_engine(host: Host, spec: ContainerSpec, facts: Facts) -> Iterator[str]:
    """Yield what this engine can't do, and what another one left, of which it sees nothing."""
    if (spec.memory or spec.cpus) and not facts.docker.limits:
        yield f"memory and cpus have no effect: rootless {spec.engine} has no cgroups of its own there"
    try:
        there = json.loads(facts.place.environment or "{}")
    except ValueError:
        return
    engine, name = there.get("engine"), there.get("name")
    if engine in CONTAINER_ENGINES and engine != spec.engine:
        how = f"ORCH_ENGINE={engine} orch down --hosts {host.name}, before this"
        yield f"container {name} of {engine} stays where it is; to remove it: {how}"


def _keys(facts: Facts, keys: Sequence[str]) -> tuple[str, ...]:
    """Return whom the container lets in: whom the account lets in, and the keys given. Each key once."""
    found: dict[str, str] = {}
    for line in (*facts.place.account_keys, *keys):
        found.setdefault(_key_body(line), line)
    return tuple(found.values())


def _key_body(line: str) -> str:
    """Return the base64 part of an authorized_keys line, which options may precede."""
    return next((word for word in line.split() if word.startswith("AAAA")), line)


def _port(host: Host, spec: ContainerSpec, facts: Facts, old: Container | None, action: str) -> int:
    """Choose the host's port for sshd. Raises Busy when the wished one is taken."""
    held = old.labels.get("orch.port", "") if old else ""
    own = int(held) if held.isdecimal() else None
    if action in (START, UNPAUSE, PROVE, KEEP) and own:
        return own
    free_soon = {own} if action == REPLACE else set()
    if spec.ssh_port is not None:
        _check_port(host, spec.ssh_port, facts, free_soon, old)
        return spec.ssh_port
    reserved = {p for c in facts.docker.containers for p in c.ports}
    taken = (facts.system.ports | set(facts.docker.holders) | reserved) - free_soon
    if own and own not in taken:
        return own
    return next(port for port in range(SSH_PORT, 65536) if port not in taken)


def _check_port(
    host: Host, port: int, facts: Facts, free_soon: set[int | None], old: Container | None
) -> None:
    holder = facts.docker.holders.get(port)
    if port in free_soon or (not holder and port not in facts.system.ports):
        return
    by = f"container {holder}" if holder else "another program of the host"
    place = host.came_from("ssh_port")
    hint = f"Set ssh_port = auto for {host.name} ({place}), or another port."
    if old and holder == old.name:
        hint = f"A run lives in it: wait for its end, or --replace ends it, or set ssh_port = auto ({place})."
    raise Busy(f"port {port} is taken by {by}", where=host.name, hint=hint)


def _leftovers(name: str, facts: Facts) -> Iterator[Container]:
    """Yield what was replaced before and has no run now."""
    for container in facts.docker.containers:
        idle = not (container.running and facts.place.inside(container.id))
        if container.ours and idle and container.name == old_name(name, container.id):
            yield container


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


def _notes(
    host: Host, spec: ContainerSpec, keys: Sequence[str], live: Sequence[LiveRun], action: str
) -> Iterator[str]:
    """Yield what a person should know before saying yes."""
    runs = ", ".join(r.run for r in live)
    if live and action == REPLACE:
        yield f"--replace ends {runs}"
    if live and action == BESIDE:
        yield f"{runs} goes on in the old container, which a deploy after its end removes"
    if not keys:
        yield "no public key is known: nobody can log in by ssh. Set authorized_keys in hosts.ini"
    unused = [name for name in ("activate", "python") if getattr(host.settings, name)]
    if unused:
        yield f"{', '.join(unused)}: not for engine {host.settings.engine}, passed over"
    if spec.network == "host":
        yield "network = host: ports that a run opens are the host's, for everybody who reaches it"
    if index_has_password(host.settings):
        yield "pip_index holds a password, which stays readable in the image's history on the host"
