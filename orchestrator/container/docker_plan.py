"""What a deploy by Docker would do on a host: asked in one exec, and planned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.container.action import BESIDE, CREATE, REPLACE
from orchestrator.container.deploy import LOOK_DEADLINE, common_values
from orchestrator.container.difference import Difference
from orchestrator.container.identity import Identity
from orchestrator.container.image.build import look_at
from orchestrator.container.image.locked import ImageLock, image_lock
from orchestrator.container.image.recipe import Recipe, images_to_look_for, recipe_for
from orchestrator.container.inputs import Inputs
from orchestrator.container.lock import Lock
from orchestrator.container.plan import ImageSteps, Plan
from orchestrator.container.planning import make_plan
from orchestrator.container.refusals import check_engine
from orchestrator.container.spec import Facts, container_spec
from orchestrator.facts.docker import DOCKER
from orchestrator.facts.gpu import GPUS
from orchestrator.facts.place import PLACE
from orchestrator.facts.question import ask
from orchestrator.facts.system import SYSTEM
from orchestrator.hosts.base import Machine
from orchestrator.units import how_many


@dataclass(frozen=True)
class Planned:
    """What a host answered, and what would be done there."""

    facts: Facts
    plan: Plan
    lock: ImageLock | None  # what the image has to be


def look_and_plan(
    machine: Machine,
    identity: Identity,
    inputs: Inputs,
    *,
    replace: bool,
    lock: Lock | ImageLock | None = None,
) -> Planned:
    """Ask a host in one exec and plan its deploy, with files that are read already; nothing is changed."""
    host = machine.host
    facts = ask_facts(machine, identity, inputs)
    check_engine(host, facts)
    wanted = recipe_for(host, identity, facts.gpus, inputs)
    spec = container_spec(host, identity, facts, inputs, wanted.digest)
    keys = (*machine.client_keys, *inputs.keys)
    locked = image_lock(lock, host, facts, wanted) if isinstance(lock, Lock) else lock
    others = _not_locked(locked, facts, wanted, inputs.packages(jupyter=host.settings.jupyter))
    plan = make_plan(host, identity, facts, spec, wanted, keys=keys, replace=replace, others=others)
    return Planned(facts, plan, locked)


def _not_locked(
    lock: ImageLock | None, facts: Facts, recipe: Recipe, requirements: Sequence[str]
) -> tuple[Difference, ...]:
    """Return how what is deployed differs from what is locked. Raises ConfigError where the settings do."""
    if not lock:
        return ()
    lock.check_recipe(recipe, requirements)
    env = lock.env(recipe, facts.docker.images.get(recipe.base))
    return lock.deployed_differs(facts.deployed, env)


def ask_facts(machine: Machine, identity: Identity, inputs: Inputs) -> Facts:
    """Ask all that a plan needs to know of a host, in one exec."""
    host = machine.host
    values = {
        **common_values(host, identity.place(host)),
        "docker": host.settings.container_command,
        "images": images_to_look_for(host, identity, inputs),
    }
    answers = ask(machine, SYSTEM, GPUS, DOCKER, PLACE, values=values, deadline=LOOK_DEADLINE)
    return Facts(answers.of(SYSTEM), answers.of(GPUS), answers.of(DOCKER), answers.of(PLACE))


def keep_to_lock(machine: Machine, planned: Planned) -> Planned:
    """Use an image that is there where it is what is locked; else build one, of the base that is locked."""
    plan, lock = planned.plan, planned.lock
    if not lock or plan.action not in (CREATE, REPLACE, BESIDE):
        return planned
    base = planned.facts.docker.images.get(plan.recipe.base)
    if not plan.image.build:
        built = look_at(machine, plan, machine.host.settings.container_command)
        if built.env == lock.env(plan.recipe, base):
            return planned
        plan = dataclasses.replace(plan, image=ImageSteps(pull=not base, build=True))
    lock.check_base(plan.recipe, base)
    note = f"the base and {how_many(len(lock.locked.packages), 'package')} as {lock.path.name} has them"
    return dataclasses.replace(planned, plan=dataclasses.replace(plan, notes=(*plan.notes, note)))
