"""orch image copy: an image from a host to others, to this machine, or to a file; no registry is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.image_ends import HERE, Words, is_file, source_of, targets_of
from orchestrator.cli.options import inventory_options, pass_app
from orchestrator.errors import OrchError, UsageError

if TYPE_CHECKING:
    from orchestrator.container.image.copying.cargo import Cargo
    from orchestrator.container.image.copying.end import End
    from orchestrator.container.image.copying.file import File
    from orchestrator.container.image.copying.route import Arrived
    from orchestrator.container.image.copying.store import Store
    from orchestrator.hosts.fleet import Outcome


@click.command("copy")
@inventory_options
@click.option("--direct", is_flag=True, help="From host to host, where your account there may log in.")
@click.option("--overwrite", is_flag=True, help="Take a name, or a .tar, from another image that has it.")
@click.argument(
    "words", nargs=-1, required=True, metavar="[IMAGE] FROM TO...", shell_complete=completing.hosts
)
@pass_app
def command(app: App, direct: bool, overwrite: bool, words: tuple[str, ...]) -> int:
    """Copy an image from one place to others: hosts, `here` (this machine), or a .tar file.

    IMAGE is a tag or an id; without one it is the image that this project runs in on FROM. Nothing is sent
    where the same image is.

    \b
      orch image copy gpu01 gpu02
      orch image copy tensorflow/tensorflow:2.9.3-gpu gpu01 gpu[02-04]
      orch image copy gpu01 mnist.tar
    """
    named = _parted(app, words)
    source = source_of(app, named)
    what = _what(app, named, source)
    outcomes = targets_of(app, named, source)
    arrived = _carry_out(app, source, what, [o.value for o in outcomes if o.value], direct, overwrite)
    return app.close([*(o for o in outcomes if o.error), *arrived])


def _parted(app: App, words: Sequence[str]) -> Words:
    """Part the words: the first is an image unless it is a place."""
    if len(words) == 1:
        raise UsageError("FROM and TO are missing", hint="As in: orch image copy gpu01 gpu02")
    first = len(words) > 2 and not _is_place(app, words[0])
    image, (source, *targets) = words[0] if first else None, words[first:]
    if source in targets:
        raise UsageError(f"{source} is FROM and TO")
    for word in words[first:]:
        if word.endswith((".tar.gz", ".tgz", ".tar.zst")):
            raise UsageError(f"{word}: a file is written and read as .tar", hint="Pack it afterwards.")
    for word in targets:
        if is_file(word) and targets.count(word) > 1:
            raise UsageError(f"{word} is named twice")
    return Words(image, source, tuple(targets))


def _is_place(app: App, word: str) -> bool:
    from orchestrator.hosts.ssh_config import is_named

    if word == HERE or is_file(word):
        return True
    known = word in app.inventory.groups or any(word == h.name for h in app.inventory.hosts)
    return known or (":" not in word and "/" not in word and is_named(word))


def _what(app: App, named: Words, source: Store | File) -> Cargo:
    from orchestrator.container.image.copying.archive import check_named, read_archive
    from orchestrator.container.image.copying.cargo import pick
    from orchestrator.container.image.copying.file import File

    if isinstance(source, File):
        found = read_archive(source.path)
        check_named(named.image, found, source.path)
        return found
    if named.image:
        return pick(named.image, source.images.images, source.title)
    return _of_the_project(app, source)


def _of_the_project(app: App, source: Store) -> Cargo:
    """Return the image that this project runs in on a host."""
    from orchestrator.container.identity import identity_of
    from orchestrator.container.image.copying.cargo import cargo, plain
    from orchestrator.container.ready import environment_for

    machine = source.machine
    environment = environment_for(machine, identity_of(machine.host, app.cwd), ready=False)
    wanted = (environment.image_id or "").removeprefix("sha256:")
    found = next((i for i in source.images.images if wanted and i.id == wanted), None)
    if not found:
        raise OrchError(
            f"the image of what is deployed ({environment.tag}) is not here any more", where=source.title
        )
    mine = [tag for tag in found.tags if plain(tag) == environment.tag]
    return cargo(found, mine or None)


def _carry_out(
    app: App, source: Store | File, what: Cargo, ends: Sequence[End], direct: bool, overwrite: bool
) -> list[Outcome[Arrived]]:
    from orchestrator.container.image.copying.end import COPY
    from orchestrator.container.image.copying.route import needs

    arrived = needs(what, ends, overwrite=overwrite)
    todo = [a for a in arrived if not a.error and a.did == COPY]
    if todo:
        _announce(app, source, what, [a.end.title for a in todo])
    if direct:
        _direct(app, source, what, arrived)
    _through_here(app, source, what, arrived)
    return [_outcome(app, what, a) for a in arrived]


def _announce(app: App, source: End, what: Cargo, names: Sequence[str]) -> None:
    from orchestrator.units import size

    app.say(f"{source.title}   {what.title}   {size(what.size)}, to {', '.join(names)}")


def _direct(app: App, source: Store | File, what: Cargo, arrived: Sequence[Arrived]) -> None:
    from orchestrator.cli.waiting import WAITING
    from orchestrator.container.image.copying.direct import copy_direct
    from orchestrator.container.image.copying.end import COPY
    from orchestrator.container.image.copying.store import Store

    local = [
        e.title for e in (source, *(a.end for a in arrived)) if not isinstance(e, Store) or e.title == HERE
    ]
    if local or not isinstance(source, Store):
        raise UsageError(f"--direct is from host to host, and {local[0]} is here", hint="Leave it out.")
    for place in arrived:
        if not place.error and place.did == COPY:
            with WAITING.on([place.end.title]):
                copy_direct(source, what, place)


def _through_here(app: App, source: End, what: Cargo, arrived: Sequence[Arrived]) -> None:
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.container.image.copying.route import copy

    with bytes_sent(f"{source.title}: {what.title}", None) as told:
        copy(source, what, [a for a in arrived if not a.seconds], told)


def _outcome(app: App, what: Cargo, arrived: Arrived) -> Outcome[Arrived]:
    """Tell what became of one place."""
    from orchestrator.container.image.copying.end import COPY, NAME
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host
    from orchestrator.units import size

    name = arrived.end.title
    if arrived.error:
        return Outcome(Host(name, name), error=arrived.error)
    done = "has it already"
    if arrived.did == NAME:
        done = f"has it already, and now calls it {what.title}"
    elif arrived.did == COPY:
        rate = f", {size(round(arrived.sent / arrived.seconds))}/s" if arrived.sent else ""
        sent = f"   {size(arrived.sent)} sent{rate} ({arrived.how})" if arrived.sent else "   direct"
        done = f"copied in {arrived.seconds:.0f} s{sent}"
    click.echo(f"{name}   {what.title}   {done}")
    return Outcome(Host(name, name), value=arrived)
