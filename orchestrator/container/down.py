"""Taking away what a deploy made: the project's containers, or its venv. Runs and data stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.container.identity import Identity, caller
from orchestrator.container.refusals import check_ours, check_place, engine_error, engine_trouble
from orchestrator.container.settle import settle
from orchestrator.container.turn import LOCK, turn
from orchestrator.errors import Busy
from orchestrator.facts.docker import DOCKER, Container, DockerReport
from orchestrator.facts.place import PLACE, LiveRun, PlaceReport
from orchestrator.facts.question import ask
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.inventory import Host
from orchestrator.render import render

DEADLINE = 300.0
"""Seconds to stop: a supervisor's grace is 30, and the engine waits 45 for each container."""

PATIENCE = 100
"""Seconds for one word to the engine; a container that is not gone by then can't be killed."""


@dataclass(frozen=True)
class Down:
    """What would go from one host."""

    host: Host
    place: PlaceReport
    containers: tuple[Container, ...]
    live: tuple[LiveRun, ...]

    @property
    def nothing(self) -> bool:
        """Whether nothing is deployed."""
        return not (self.containers or self.place.environment or (self.place.venvs and not self.place.others))

    @property
    def lines(self) -> Iterator[str]:
        """Yield what would be done."""
        for container in self.containers:
            yield f"  container  remove   {container.name}"
        if self.place.venvs and self.place.others:
            yield f"  venv       keep     {self.place.path}/venv ({', '.join(self.place.others)} has it too)"
        elif self.place.venvs:
            yield f"  venv       remove   {self.place.path}/venv"
        if self.place.environment and not (self.containers or self.place.venvs):
            yield f"  record     remove   {self.place.here}/environment.json"
        for run in self.live:
            yield f"  run        end      {run.run}"


def survey_down(machine: Machine, identity: Identity, *, replace: bool = False) -> Down:
    """Ask in one exec what there is. Raises Busy when a run lives and `replace` is not given."""
    settle(machine, identity.place(machine.host))
    host = machine.host
    place_word = on_host(identity.place(host)).text
    values = {"docker": host.settings.container_command, "place": place_word, "volumes": []}
    answers = ask(machine, DOCKER, PLACE, values=values)
    docker, place = answers.of(DOCKER), answers.of(PLACE)
    trouble = engine_trouble(host, docker) if host.settings.in_container else None
    if trouble:
        raise engine_error(host, trouble, place.account)
    check_place(host, identity, place)
    containers = tuple(_ours(host, identity, docker))
    inside = (run for c in containers if c.running for run in place.inside(c.id))
    live = tuple({r.run: r for r in (*place.live, *inside)}.values())
    if live and not replace:
        runs = ", ".join(r.run for r in live)
        raise Busy(
            f"{runs} lives",
            where=host.name,
            hint="Wait for its end, or `orch stop` it, or: orch down --replace",
        )
    return Down(host, place, containers, live)


def _ours(host: Host, identity: Identity, docker: DockerReport) -> Iterator[Container]:
    """Yield the project's containers: the one that is entered, and those that it took the place of."""
    name = identity.container
    for container in docker.containers:
        if container.name == name:
            check_ours(host, identity, container)
            yield container
        elif container.ours and container.name.startswith(f"{name}-old-"):
            yield container


def take_down(machine: Machine, identity: Identity, down: Down) -> None:
    """Stop and remove. Raises HostError with the engine's words when something is still there.

    Raises Busy for a run that began meanwhile, or while somebody deploys.
    """
    with turn(machine, down.place.path, what="down") as token:
        now = survey_down(machine, identity, replace=True)
        began = {r.run for r in now.live} - {r.run for r in down.live}
        if began:
            raise Busy(
                f"{', '.join(sorted(began))} has begun meanwhile", where=down.host.name, hint="Try again."
            )
        _take_down(machine, now, token)


def _take_down(machine: Machine, down: Down, token: str) -> None:
    text = render(
        "container/down.sh.j2",
        engine=down.host.settings.container_command,
        place=down.place.path,
        patience=PATIENCE,
        containers=[c.id for c in down.containers],
        by=caller(),
        turn=LOCK,
        token=token,
    )
    machine.ask(Script("down", text), deadline=DEADLINE)
