"""orch image: the images on hosts, above all those that orch built."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli import image_copy, image_lock
from orchestrator.cli.app import App
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_arguments, pass_app

if TYPE_CHECKING:
    from orchestrator.container.image.images import Images, OwnImage
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host


@click.group("image")
def command() -> None:
    """List, copy, lock and remove images on hosts.

    \b
      orch image ls
      orch image copy gpu01 gpu02
      orch image lock gpu01
      orch image prune gpu01
    """


command.add_command(image_copy.command)
command.add_command(image_lock.command)


@command.command("ls")
@host_arguments
@click.option("-A", "--everyone", is_flag=True, help="Everybody's images.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@pass_app
def ls(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], everyone: bool, as_json: bool) -> int:
    """List the images that orch built: size, age, whose they are, and which containers use them.

    \b
      orch image ls
      orch image ls -A gpu01
    """
    outcomes = _survey(app, app.looked_at(hosts, exclude))
    rows = [_row(o, own) for o in outcomes if o.value for own in o.value.own if everyone or _is_mine(o, own)]
    if as_json:
        print_json("image ls", rows, ((o.host.name, o.error) for o in outcomes))
    elif rows:
        for line in _table(rows):
            click.echo(line)
    elif not any(o.error for o in outcomes):
        app.say("no images" if everyone else "no images of yours (everybody's: orch image ls -A)")
    return app.close(outcomes)


@command.command("prune")
@host_arguments
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@pass_app
def prune(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], yes: bool) -> int:
    """Remove your images that no container uses; nobody else's, and nothing that orch did not build.

    \b
      orch image prune gpu01
    """
    from orchestrator.cli.asking import ask
    from orchestrator.container.image.images import remove

    outcomes = _survey(app, app.changed(hosts, exclude))
    todo = {o.host.name: found for o in outcomes if o.value and (found := _removable(o))}
    for outcome in outcomes:
        if outcome.value:
            _tell_plan(app, outcome.host.name, outcome.value, todo.get(outcome.host.name, []))
    if not todo:
        return app.close(outcomes)
    ask(app, yes, "a prune removes images")

    def work(machine: Machine) -> list[str]:
        name = machine.host.name
        return list(remove(machine, todo[name], lambda line: app.say(f"{name}   {line}")))

    done = app.each([o.host for o in outcomes if o.host.name in todo], work)
    surveyed = {o.host.name: o.value for o in outcomes if o.value}
    for result in done:
        if result.value is not None:
            name = result.host.name
            _tell_done(app, name, surveyed[name], todo[name], result.value)
    return app.close([*(o for o in outcomes if o.host.name not in todo), *done])


def _survey(app: App, hosts: Sequence[Host]) -> list[Outcome[Images]]:
    from orchestrator.container.identity import identity_of
    from orchestrator.container.image.images import survey_images

    return app.each(hosts, lambda machine: survey_images(machine, identity_of(machine.host, app.cwd)))


def _is_mine(outcome: Outcome[Images], own: OwnImage) -> bool:
    from orchestrator.container.identity import person_of

    return own.person == person_of(outcome.host).name


def _removable(outcome: Outcome[Images]) -> list[OwnImage]:
    from orchestrator.container.identity import person_of

    assert outcome.value
    return [own for own in outcome.value.own if own.removable_by(person_of(outcome.host).name)]


def _row(outcome: Outcome[Images], own: OwnImage) -> dict[str, Any]:
    """Return what is said of an image; the shape of --json."""
    return {
        "host": outcome.host.name,
        "name": own.name,
        "id": own.image.id,
        "kind": own.kind,
        "size": own.image.size,
        "created": own.image.created,
        "person": own.person,
        "project": own.project,
        "containers": list(own.containers),
    }


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    from orchestrator.cli.table import columns
    from orchestrator.units import size

    table = [
        (
            r["name"],
            r["host"],
            size(r["size"]),
            _age(r["created"]),
            r["person"] or "-",
            r["project"] or "-",
            ", ".join(r["containers"]) or "-",
        )
        for r in rows
    ]
    return columns(("IMAGE", "WHERE", "SIZE", "AGE", "WHO", "PROJECT", "USED BY"), table)


def _age(created: float | None) -> str:
    from orchestrator.units import duration

    return "-" if created is None else duration(time.time() - created)


def _tell_plan(app: App, host: str, images: Images, gone: Sequence[OwnImage]) -> None:
    from orchestrator.container.image.images import freed
    from orchestrator.units import size

    if not gone:
        click.echo(f"{host}   nothing to remove")
        return
    app.say(f"{host}   frees about {size(freed(images, gone))}")
    for line in _plan(gone):
        app.say(line)


def _plan(gone: Sequence[OwnImage]) -> Iterator[str]:
    width = max(len(own.name) for own in gone)
    for own in gone:
        yield f"  image      remove   {own.name:{width}}   {own.project}   {_age(own.image.created)} old"


def _tell_done(app: App, host: str, images: Images, gone: Sequence[OwnImage], kept: Sequence[str]) -> None:
    from orchestrator.container.image.images import freed
    from orchestrator.units import how_many, size

    for line in kept:
        app.say(f"warning: {host}: kept {line}")
    names = {line.partition(": ")[0] for line in kept}
    left = [own for own in gone if own.name not in names]
    click.echo(f"{host}   removed {how_many(len(left), 'image')}, about {size(freed(images, left))}")
