"""orch train: bundle the code, launch it on a host, print the run's id."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App, host_options, pass_app
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import Busy, Interrupted, OrchError, Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.inventory import Host
    from orchestrator.run.bundle import Bundle
    from orchestrator.run.launch import Launched, Order

EARLY = 5
"""Seconds in which a launch that nobody watches stays to see whether the command ends at once."""


@dataclass(frozen=True)
class Manner:
    """How the caller wants to see the run."""

    detach: bool
    wait: bool
    quiet: bool

    @property
    def follows(self) -> bool:
        """Whether the log is shown until the end."""
        return self.wait or (not self.detach and sys.stdout.isatty())

    @property
    def watch(self) -> int:
        """Seconds for which the launch itself looks after the command."""
        return 0 if self.detach or self.follows else EARLY


class TrainCommand(click.Command):
    """A command that knows the commonest slip: flags of the training before `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual; say where a flag that isn't orch's belongs."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            guess = error.possibilities[0] if error.possibilities else None
            meant = f"Did you mean {guess}? " if guess else ""
            hint = f"{meant}What belongs to your command stands after --: orch train -- python3 train.py --x"
            raise UsageError(f"no option {error.option_name}", hint=hint) from error


@click.command("train", cls=TrainCommand, context_settings={"allow_interspersed_args": False})
@host_options
@click.option(
    "--env", "-e", multiple=True, metavar="K=V", help="An environment variable; K alone: from here."
)
@click.option("--name", metavar="NAME", help="A name to call the run by.")
@click.option(
    "--gpus", default="", metavar="N", help="How many GPUs: a count, all, none. Default: all free ones."
)
@click.option("--gpu-ids", metavar="IDS", help="Which GPUs: indices or UUIDs, joined by commas.")
@click.option("--share", is_flag=True, help="Also take GPUs that someone uses.")
@click.option("-d", "--detach", is_flag=True, help="Return as soon as the command runs.")
@click.option("--wait", is_flag=True, help="Show the log until the end, and end with the command's status.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the run's id.")
@click.option(
    "--nodes", metavar="N", help="Of the hosts that a group or pattern names, use one that has room."
)
@click.option("--max-size", default="200m", show_default=True, help="The largest code to send.")
@click.option("--dry-run", is_flag=True, help="Print what would be launched; -v: the whole script.")
@click.argument(
    "argv", nargs=-1, type=click.UNPROCESSED, metavar="[--] CMD...", shell_complete=completing.files
)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    env: tuple[str, ...],
    name: str | None,
    gpus: str,
    gpu_ids: str | None,
    share: bool,
    detach: bool,
    wait: bool,
    quiet: bool,
    nodes: str | None,
    max_size: str,
    dry_run: bool,
    argv: tuple[str, ...],
) -> int:
    """Run a training command in the container of a host, under nohup, with a record of how it goes.

    The project's folder is sent as it is now; editing it later changes nothing in the run. Without a
    command, or with flags alone, the bundled trainer runs.

    \b
      orch train --hosts gpu01 -- python3 train.py --epochs=100
      orch train -d --hosts gpu01 --name nightly --gpus 2 -- python3 train.py
      orch train --hosts gpu01 -- --epochs=5
    """
    from orchestrator.run.order import make_order, wanted_gpus

    if detach and wait:
        raise UsageError("--detach and --wait exclude each other")
    _check_command(app, argv)
    candidates = _candidates(app, hosts, exclude, nodes)
    manner = Manner(detach, wait, quiet)
    bundle, argv = _code(app, candidates[0], argv, max_size)

    def order(host: Host) -> Order:
        return make_order(
            host,
            argv,
            bundle=bundle,
            cwd=app.cwd,
            name=name,
            env=_environment(app, host, env),
            gpus=wanted_gpus(gpus, gpu_ids),
            share=share,
            watch=manner.watch,
        )

    if dry_run:
        return _dry_run(app, candidates[0], order(candidates[0]), bundle)
    for host in candidates[:-1]:
        try:
            return _launch(app, host, order(host), bundle, manner)
        except (Busy, Unreachable, Refused) as error:
            app.say(f"{error.where}: {error.message}, so the next one")
    return _launch(app, candidates[-1], order(candidates[-1]), bundle, manner)


def _check_command(app: App, argv: tuple[str, ...]) -> None:
    """Refuse a first word that is a slip, before it becomes a failed run."""
    if not argv:
        return
    first, rest = argv[0], " ".join(argv[1:] if argv[1:2] != ("--",) else argv[2:])
    if first in app.inventory.groups or any(first == h.name for h in app.inventory.hosts):
        raise UsageError(
            f"{first} is a host, not a command", hint=f"orch train --hosts {first} -- {rest or 'CMD'}"
        )
    if first.endswith(".py") and "/" not in first and (app.cwd / first).is_file():
        raise UsageError(f"{first} is no program", hint=f"orch train -- python3 {' '.join(argv)}")


def _candidates(
    app: App, words: tuple[str, ...], exclude: tuple[str, ...], nodes: str | None
) -> tuple[Host, ...]:
    """Return the host that is meant, or with --nodes 1 those of which the first with room is taken."""
    if nodes not in (None, "1"):
        raise UsageError(f"--nodes {nodes}: a run takes one host", hint="Of several candidates: --nodes 1")
    hosts = app.changed(words, exclude)
    if len(hosts) == 1 or nodes:
        return hosts
    names = ",".join(words)
    raise UsageError(
        f"{names} is {len(hosts)} hosts, a run takes one",
        hint=f"The first that has room: --hosts {names} --nodes 1; or name one: --hosts {hosts[0].name}",
    )


def _environment(app: App, host: Host, pairs: tuple[str, ...]) -> dict[str, str]:
    from orchestrator.run.order import environment

    return environment(host, pairs, app.environ)


def _code(app: App, host: Host, argv: tuple[str, ...], max_size: str) -> tuple[Bundle, tuple[str, ...]]:
    """Collect the code to send: the project, or the bundled trainer where no command is given."""
    from orchestrator.container.identity import identity_of
    from orchestrator.run.bundle import collect
    from orchestrator.run.code import unsent
    from orchestrator.run.order import TRAINER, trainer_bundle
    from orchestrator.units import bytes_of

    try:
        limit = bytes_of(max_size)
    except ValueError as error:
        raise UsageError(f"--max-size {max_size}: {error}") from error
    if not argv or argv[0].startswith("-"):
        return trainer_bundle(), (*TRAINER, *argv)
    bundle = collect(identity_of(host, app.cwd).project.folder, max_bytes=limit)
    for note in bundle.notes:
        app.say(f"note: {note}")
    for word in unsent(argv, app.cwd, bundle):
        app.say(f"warning: {word} is here but is not sent (ignored, or outside the project)")
    return bundle, argv


def _dry_run(app: App, host: Host, order: Order, bundle: Bundle) -> int:
    from orchestrator.hosts.masking import masked
    from orchestrator.run.launch import launch_line, script

    app.say(_code_line(bundle, None))
    app.say(f"run     {order.spec.run} on {host.name}, in work/{order.spec.sub}".rstrip("/"))
    click.echo(launch_line(order.spec))
    if app.verbose:
        click.echo(masked(script(order, host.name).text))
    return 0


def _code_line(bundle: Bundle, new: bool | None) -> str:
    from orchestrator.units import size

    files = f"{bundle.count} file" + ("s" if bundle.count != 1 else "")
    known = "" if new is None else " (new)" if new else " (there already)"
    return f"code    {files}, {size(bundle.size)}, bundle {bundle.short}{known}"


def _launch(app: App, host: Host, order: Order, bundle: Bundle, manner: Manner) -> int:
    from orchestrator.run import seen
    from orchestrator.run.launch import NeedsBundle

    with WAITING.on([host.name]):
        machine = app.machine(host)
    new = False
    try:
        launched = _launched(app, machine, order)
    except NeedsBundle:
        new = True
        _upload(app, host, order, bundle)
        launched = _launched(app, machine, order)
    seen.remember(seen.file(app.environ), order.spec)
    _tell(app, order, bundle, launched, new, manner)
    if not manner.quiet:
        _tell_changes(app, host, launched)
        _tell_next(app, order, launched, manner)
    return _see(app, host, order, launched, manner)


def _launched(app: App, machine: Machine, order: Order) -> Launched:
    """Launch, after a deploy where one is missing and wanted."""
    from orchestrator.container.ready import NoEnvironment

    try:
        try:
            return _waited(machine, order)
        except NoEnvironment:
            if not _offer_deploy(app, machine.host):
                raise
            return _waited(machine, order)
    except KeyboardInterrupt:
        where = machine.host.name
        raise Interrupted(
            f"run {order.spec.run} may have been started", where=where, hint=f"See: orch ps {where}"
        ) from None


def _waited(machine: Machine, order: Order) -> Launched:
    from orchestrator.run.launch import launch

    with WAITING.on([machine.host.name]):
        return launch(machine, order)


def _offer_deploy(app: App, host: Host) -> bool:
    """On a terminal, show the plan of the deploy that is missing; it asks before it does anything."""
    if not app.interactive():
        return False
    from orchestrator.cli.main import cli

    app.say(f"{host.name}: nothing is deployed here yet, so first the deploy:")

    return cli.main(["deploy", "--hosts", host.name], obj=app, standalone_mode=False) in (None, 0)


def _upload(app: App, host: Host, order: Order, bundle: Bundle) -> None:
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.run.upload import upload

    with bytes_sent(f"{host.name}: sending code", bundle.size) as sent:
        upload(app.machine(host), order.place, bundle, told=sent)


def _tell(app: App, order: Order, bundle: Bundle, launched: Launched, new: bool, manner: Manner) -> None:
    spec = order.spec
    if manner.quiet:
        click.echo(spec.run)
        return
    app.say(_code_line(bundle, new))
    click.echo(f"run     {spec.run} on {launched.host}{gpus_named(launched.indices)}")


def _tell_changes(app: App, host: Host, launched: Launched) -> None:
    """Say which settings are not those that the run's environment was deployed with."""
    from orchestrator.container.inputs import read_inputs
    from orchestrator.container.since import changed, noted, told

    if not launched.settings:
        return
    try:
        names = changed(launched.settings, noted(host, read_inputs(host, app.environ)))
    except OrchError as error:
        app.say(f"note: {error}")
        return
    if names:
        app.say(f"note: {told(host, names)}. To have it: orch deploy --hosts {host.name}")


def _tell_next(app: App, order: Order, launched: Launched, manner: Manner) -> None:
    word = order.spec.name or order.spec.run
    if not manner.wait and not launched.state.get("ended"):
        app.say(f"next:   orch tail {word}      orch ps      orch stop {word}")


def gpus_named(indices: Sequence[int]) -> str:
    """Return `, GPU 2` or `, GPUs 0-3,6`; empty where there are none."""
    from orchestrator.units import ranges

    if not indices:
        return ""
    return f", GPU{'s' if len(indices) > 1 else ''} {ranges(indices)}"


def _see(app: App, host: Host, order: Order, launched: Launched, manner: Manner) -> int:
    """Follow the run, or report a command that has ended already."""
    from orchestrator.cli.runs import find_run
    from orchestrator.cli.tail import follow_run, report_end

    if manner.follows:
        return follow_run(app, find_run(app, order.spec.run, [host.name]))
    if launched.state.get("ended"):
        return report_end(app, find_run(app, order.spec.run, [host.name], tail=4000))
    return 0
