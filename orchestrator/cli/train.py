"""orch train: bundle the code, launch it on a host, print the run's id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.collecting import collected, without
from orchestrator.cli.launching import Code, Manner, launch_on, shown
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.run_options import Asked, run_options
from orchestrator.errors import Busy, Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.launch import Order


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
@run_options
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
    asked: Asked,
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
    _check_command(app, argv)
    candidates = _candidates(app, hosts, exclude, nodes)
    bundle, argv = collected(app, candidates[0], argv, max_size)
    bundle = without(app, bundle, candidates[0].settings.env_file, *asked.env_files)

    def order(host: Host) -> Order:
        from orchestrator.run.order import make_order

        return make_order(host, argv, asked.wishes(app, host), bundle=bundle, cwd=app.cwd)

    if dry_run:
        return shown(app, candidates[0], order(candidates[0]), Code.of(bundle))
    return _on_the_first(app, candidates, order, Code.of(bundle), asked.manner)


def _on_the_first(
    app: App, hosts: Sequence[Host], order: Callable[[Host], Order], code: Code, manner: Manner
) -> int:
    """Launch on the first host that takes the run; what the last one says stands."""
    *others, last = hosts
    for host in others:
        try:
            return launch_on(app, host, order(host), code, manner)
        except (Busy, Unreachable, Refused) as error:
            app.say(f"{error.where}: {error.message}, so the next one")
    return launch_on(app, last, order(last), code, manner)


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
