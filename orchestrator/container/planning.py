"""Plans a deploy: the wanted spec against what the host holds. Pure: it asks and changes nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.container.action import BESIDE, CREATE, KEEP, PROVE, REPLACE, START, UNPAUSE, choose_action
from orchestrator.container.by_hand import by_hand, find, folder_deleted, old_name
from orchestrator.container.cluster_ports import check_cluster
from orchestrator.container.difference import Difference, differences
from orchestrator.container.identity import Identity
from orchestrator.container.image.recipe import Recipe
from orchestrator.container.notes import notes
from orchestrator.container.plan import ImageSteps, Plan
from orchestrator.container.port import choose_port
from orchestrator.container.refusals import check_ours, check_place, check_root, check_seen, check_volumes
from orchestrator.container.spec import ContainerSpec, Facts
from orchestrator.errors import ConfigError
from orchestrator.facts.docker import Container, Image
from orchestrator.inventory import Host


def make_plan(
    host: Host,
    identity: Identity,
    facts: Facts,
    spec: ContainerSpec,
    recipe: Recipe,
    *,
    keys: Sequence[str] = (),
    replace: bool = False,
    others: Sequence[Difference] = (),
) -> Plan:
    """Compare what is wanted with what is there. `others` are differences besides those of the spec.

    Raises ConfigError, Refused, Busy or HostError where the host can't or must not have it.
    """
    check_place(host, identity, facts.place)
    check_root(host, facts.place, facts.system)
    check_seen(host, facts)
    check_volumes(host, facts.place)
    recorded = facts.deployed
    same_engine = recorded if recorded and recorded.engine == spec.engine else None
    old = find(spec.name, facts.docker.containers, same_engine)
    if old:
        check_ours(host, identity, old)
    changed = (
        *by_hand(spec.name, old, same_engine, facts.docker.images),
        *folder_deleted(old, facts.place, facts.system.uid or 0),
    )
    changes = (*differences(_recorded(old), asdict(spec), recipe.source), *others) if old else ()
    live = facts.place.inside(old.id) if old and old.running else ()
    action = choose_action(old, recorded, (*changes, *changed), live=bool(live) and not replace)
    check_cluster(host, spec, facts.system, old if action == BESIDE else None)
    wanted_keys = _keys(facts, keys)
    new = action in (CREATE, REPLACE, BESIDE)
    image = _image_steps(host, identity, recipe, facts.docker.images) if new else ImageSteps()
    plan = Plan(
        spec=spec,
        recipe=recipe,
        tag=recipe.tag(identity),
        image=image,
        port=choose_port(host, spec, facts, old, action),
        action=action,
        old=old,
        live=live,
        keys=wanted_keys,
        keys_change=wanted_keys != facts.place.placed_keys and action in (KEEP, START, UNPAUSE, PROVE),
        leftovers=tuple(_leftovers(spec.name, facts)),
        changes=changes,
        by_hand=changed,
    )
    return dataclasses.replace(plan, notes=tuple(notes(plan, host, identity, facts, recorded)))


def _image_steps(host: Host, identity: Identity, recipe: Recipe, images: Mapping[str, Image]) -> ImageSteps:
    """Return what a new container's image takes. Raises ConfigError for an id that no image there has."""
    if _is_there(images, recipe.tag(identity), "orch.recipe", recipe.digest):
        return ImageSteps()
    missing, source = recipe.base not in images, recipe.source
    if missing and recipe.base.startswith("sha256:"):
        raise ConfigError(
            f"there is no image {recipe.base} on {host.name}",
            where=host.came_from("image"),
            hint="See there: docker images --no-trunc. What a registry has is called NAME@sha256:...",
        )
    build_base = source is not None and not _is_there(images, recipe.base, "orch.source", source.digest)
    return ImageSteps(pull=missing and not source, build=True, build_base=build_base)


def _is_there(images: Mapping[str, Image], name: str, label: str, digest: str) -> bool:
    """Whether an image is what its name says, and not another one under the name."""
    image = images.get(name)
    return bool(image and image.labels.get(label) == digest)


def _recorded(old: Container) -> Mapping[str, Any]:
    try:
        found = json.loads(old.labels.get("orch.spec", ""))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _keys(facts: Facts, keys: Sequence[str]) -> tuple[str, ...]:
    """Return whom the container lets in: whom the account lets in, and the keys given. Each key once."""
    found: dict[str, str] = {}
    for line in (*facts.place.account_keys, *keys):
        found.setdefault(_key_body(line), line)
    return tuple(found.values())


def _key_body(line: str) -> str:
    """Return the base64 part of an authorized_keys line, which options may precede."""
    return next((word for word in line.split() if word.startswith("AAAA")), line)


def _leftovers(name: str, facts: Facts) -> Iterator[Container]:
    """Yield what was replaced before and has no run now."""
    for container in facts.docker.containers:
        idle = not (container.running and facts.place.inside(container.id))
        if container.ours and idle and container.name == old_name(name, container.id):
            yield container
