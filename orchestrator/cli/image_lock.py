"""orch image lock: write down exactly what this project's environment is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.options import host_arguments, pass_app

if TYPE_CHECKING:
    from orchestrator.container.lock import Lock, Locked
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome


@click.command("lock")
@host_arguments
@pass_app
def command(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...]) -> int:
    """Write what is deployed into image.lock: the base, the package list. `orch deploy --locked` keeps to it.

    Name hosts of each kind that you have (with GPUs and without, another engine): each has its section.

    \b
      orch image lock gpu01
    """
    from orchestrator.container.identity import top_folder
    from orchestrator.container.lock import read_lock, write_lock

    outcomes = app.each(app.changed(hosts, exclude), lambda machine: _locked(app, machine))
    lock = read_lock(top_folder(app.cwd), must=False)
    changed = _merged(lock, outcomes)
    if any(o.value for o in outcomes):
        write_lock(changed)
    for outcome in outcomes:
        if outcome.value:
            _tell(app, outcome.host.name, lock.sections.get(outcome.value.kind), outcome.value)
    return app.close(outcomes)


def _locked(app: App, machine: Machine) -> Locked:
    """Return what is deployed on a host. Raises OrchError where that is not what the settings ask for."""
    from orchestrator.container.direct.venv import VenvDeploy
    from orchestrator.container.docker import DockerDeploy
    from orchestrator.container.survey import check_lockable, survey
    from orchestrator.errors import OrchError

    deploy = survey(machine, app.cwd, app.environ)
    check_lockable(machine.host)
    assert isinstance(deploy, (DockerDeploy, VenvDeploy))
    name = machine.host.name
    if not deploy.unchanged:
        raise OrchError(
            "what is deployed is not what the settings ask for",
            where=name,
            hint=f"First: orch deploy --hosts {name}",
        )
    return deploy.locked(machine, deploy.unchanged)


def _merged(lock: Lock, outcomes: Sequence[Outcome[Locked]]) -> Lock:
    """Put the hosts' sections in their places. Raises ConfigError where two of one kind differ."""
    import dataclasses

    from orchestrator.errors import ConfigError

    found: dict[str, tuple[str, Locked]] = {}
    for outcome in outcomes:
        if outcome.value is None:
            continue
        host, other = found.setdefault(outcome.value.kind, (outcome.host.name, outcome.value))
        differing = list(other.packages_differ(outcome.value.packages))
        if differing or other.base_id != outcome.value.base_id:
            what = differing[0] if differing else "another base"
            raise ConfigError(
                f"{outcome.host.name} is not as {host}: {what}",
                hint=f"Lock one of them, then: orch deploy --locked {outcome.host.name}",
            )
    return dataclasses.replace(lock, sections={**lock.sections, **{k: v for k, (_, v) in found.items()}})


def _tell(app: App, host: str, before: Locked | None, now: Locked) -> None:
    from orchestrator.container.lock import FILE
    from orchestrator.units import how_many

    click.echo(f"{FILE}   {now.kind}   {how_many(len(now.packages), 'package')}   as on {host}")
    for change in before.packages_differ(now.packages) if before else ():
        app.say(f"  {change.replace(' locked)', ' before)').replace('(not before)', '(new)')}")
