"""What is deployed on a host, asked there: and whether a command can enter it now."""

from __future__ import annotations

from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity, check_owner
from orchestrator.container.refusals import engine_error
from orchestrator.container.start import answers
from orchestrator.errors import HostError, NotPermitted, OrchError, Refused
from orchestrator.facts.trouble import explain
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.inventory import Host
from orchestrator.render import render

DEADLINE = 240.0
"""Seconds for a stopped container to start."""


class NoEnvironment(Refused):
    """Nothing usable is deployed on the host: a deploy is needed first."""


def environment_for(machine: Machine, identity: Identity, *, ready: bool) -> Environment:
    """Return what is deployed for a project; see read_environment. Raises Refused for somebody else's too."""
    environment = read_environment(machine, identity.place(machine.host), ready=ready)
    check_owner(identity, vars(environment), where=machine.host.name)
    return environment


def read_environment(machine: Machine, place: str, *, ready: bool) -> Environment:
    """Return what is deployed in `place`; `ready`: a stopped container is started first.

    Raises NoEnvironment, or HostError for an engine or a container that takes no commands.
    """
    host = machine.host
    text = render("container/ready.sh.j2", place=on_host(place).text, ready=ready)
    answer = answers(machine.ask(Script("environment", text), deadline=DEADLINE).text)
    if answer.get("answer") != "there":
        raise no_environment(host, answer.get("answer", ""), answer.get("why", ""))
    try:
        return Environment.parse(answer.get("environment", ""))
    except ValueError as error:
        raise _unusable(host, f"{answer.get('record', place)} makes no sense: {error}") from error


def no_environment(host: Host, answer: str, why: str) -> OrchError:
    """Return the error for an answer other than `there`; `why` is what `orch_ready` said (environment.sh)."""
    *details, last = why.strip().splitlines() or [""]
    kind, _, words = last.partition(" ")
    if answer == "unreadable":
        message = f"{last} can't be read by this account, so that nobody knows here what is deployed"
        return NotPermitted(message, where=host.name, hint="Its owner can: chmod u+r, or deploy as them.")
    if answer != "not-ready":
        return NoEnvironment(
            "nothing is deployed here", where=host.name, hint=f"First: orch deploy --hosts {host.name}"
        )
    if kind == "engine":
        return engine_error(
            host, explain(words or "no answer within a minute", host.settings.engine), host.user or "ACCOUNT"
        )
    if kind == "paused":
        return HostError(
            f"container {words} is paused", where=host.name, hint=f"On the host: docker unpause {words}"
        )
    return _unusable(host, words or "it does not answer", "\n".join(details))


def _unusable(host: Host, why: str, details: str = "") -> NoEnvironment:
    return NoEnvironment(
        f"the environment is not usable: {why}",
        where=host.name,
        hint=f"Deploy again: orch deploy --hosts {host.name}",
        details=details or None,
    )
