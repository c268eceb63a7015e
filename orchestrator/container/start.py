"""The scripts that put a container in its place, end a deploy, or take it back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.container.action import BESIDE, REPLACE
from orchestrator.container.by_hand import old_name
from orchestrator.container.causes import explain_failure
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity
from orchestrator.container.inputs import Inputs
from orchestrator.container.plan import Plan
from orchestrator.container.run_command import LIMITS, ending, environment_for, keeping, run_command, setup
from orchestrator.container.turn import LOCK
from orchestrator.errors import HostError
from orchestrator.facts.lines import json_object
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from orchestrator.render import render

READY_TRIES = 120
"""Half seconds for a container to be ready; ten times as many where it runs a `startup`."""

DEADLINE = 900.0
"""Seconds for a start: the old container's stop, the start and its `startup`."""


@dataclass(frozen=True)
class Started:
    """A container that is ready for logins."""

    id: str
    image: str
    host_key: str  # type and key
    made: Mapping[str, Any] = field(default_factory=dict)  # what a person may change in it (made.j2)
    tagged: str = ""  # the id of the image that has the plan's tag


def start_script(
    plan: Plan, identity: Identity, inputs: Inputs, engine: tuple[str, ...], env_digest: str, token: str
) -> Script:
    """Return the script that carries out a plan's action on the container; `token` is the turn's."""
    spec, old = plan.spec, plan.old
    files = setup(plan, inputs.startup).files
    env_file, exported = environment_for(inputs.env)
    text = render(
        "container/start.sh.j2",
        place=spec.place,
        name=spec.name,
        engine=engine,
        action=plan.action,
        old=old.id if old else "",
        old_running=bool(old and old.running),
        old_paused=bool(old and old.paused),
        tag=plan.tag,
        old_name=old_name(spec.name, old.id) if old else "",
        user=spec.user,
        folder=spec.digest[:12],
        files=[(name, base64.b64encode(data).decode()) for name, data in files.items()],
        keys="".join(f"{line}\n" for line in plan.keys),
        run=run_command(plan, identity, keeping(engine, exported), env_digest).shell(),
        limits=LIMITS,
        ending=ending(plan, exported).shell(),
        env_file=env_file,
        exported=[(name, secret.value) for name, secret in exported.items()],
        turn=LOCK,
        token=token,
        tries=READY_TRIES * (10 if inputs.startup else 1),
    )
    return Script("start", text)


def start(machine: Machine, plan: Plan, script: Script) -> Started:
    """Carry out a start. Raises HostError with the container's last lines; the old one is then back."""
    result = machine.run(script, deadline=DEADLINE)
    answer = answers(result.text)
    if answer.get("answer") == "started":
        host_key = " ".join(answer["host_key"].split()[:2])
        made = json_object(answer.get("made"))
        return Started(answer["id"], answer["image"], host_key, made, answer.get("tagged", ""))
    why = answer.get("why") or result.complaint
    raise explain_failure(machine.host, why, log=answer.get("log", ""), status=answer.get("exit"), plan=plan)


def answers(text: str) -> dict[str, str]:
    """Return the `key value` lines of a script's answer."""
    pairs = (line.partition(" ") for line in text.split("\n"))
    return {key: value.replace("\036", "\n") for key, _, value in pairs if key}


def removed(plan: Plan) -> tuple[str, ...]:
    """Return the ids of the containers that go when the new one has proved itself."""
    gone = [c.id for c in plan.leftovers]
    if plan.action == REPLACE and plan.old:
        gone.append(plan.old.id)
    return tuple(gone)


def finish(machine: Machine, plan: Plan, environment: Environment, token: str) -> None:
    """Write down what is deployed, and remove what was replaced."""
    text = render(
        "container/finish.sh.j2",
        place=environment.place,
        engine=environment.command,
        environment_sh=environment.script(),
        environment_json=environment.text(),
        owner_json=environment.owner(),
        remove=removed(plan),
        turn=LOCK,
        token=token,
        by=environment.by,
        what=f"{plan.action} {environment.name} {(environment.container or '')[:12]}",
        uid=environment.uid,
        gid=environment.gid,
    )
    machine.ask(Script("finish", text), deadline=120)


def place_keys(machine: Machine, plan: Plan) -> None:
    """Write authorized_keys anew; the container's sshd reads it at each login."""
    text = render(
        "container/keys.sh.j2",
        place=plan.spec.place,
        keys="".join(f"{line}\n" for line in plan.keys),
        user=plan.spec.user,
    )
    machine.ask(Script("keys", text))


def undo_script(plan: Plan, engine: tuple[str, ...]) -> Script:
    """Return the script that takes back what a plan's start made, unless that is written down as deployed."""
    old = plan.old
    text = render(
        "container/undo.sh.j2",
        engine=engine,
        place=plan.spec.place,
        name=plan.spec.name,
        old=old.id if old else "",
        replaced=plan.action in (REPLACE, BESIDE),
        restart=bool(old and old.running and plan.action == REPLACE),
    )
    return Script("undo", text)


def undo(machine: Machine, plan: Plan, engine: tuple[str, ...]) -> str:
    """Take back a container that was made and did not prove itself. Returns its last lines."""
    try:
        return machine.run(undo_script(plan, engine), deadline=120).text
    except HostError:  # the proof's own failure says more
        return ""
