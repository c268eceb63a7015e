"""orch train: bundle the code, launch it on a host, print the run's id."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.collecting import collected, without
from orchestrator.cli.launching import Code
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.run_options import Asked, run_options
from orchestrator.cli.together import launch_on_all, shown_all
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
    "--nodes", metavar="N", help="Of the hosts named, use the first N that have room; all: each of them."
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
    command, or with flags alone, the bundled trainer runs. On several hosts it runs on all of them or on
    none, each worker with a TF_CONFIG for tf.distribute; the first host is the chief.

    \b
      orch train --hosts gpu01 -- python3 train.py --epochs=100
      orch train --hosts gpu01,gpu02 --max-restarts 3 -- python3 train.py
      orch train --hosts lab --nodes 2 -- python3 train.py
      orch train -d --hosts gpu01 --name nightly --gpus 2 -- python3 train.py
      orch train --hosts gpu01 -- --epochs=5
    """
    from orchestrator.run.order import git_of, make_order

    _check_command(app, argv)
    those, count = candidates(app, hosts, exclude, nodes)
    bundle, argv = collected(app, those[0], argv, max_size)
    bundle = without(app, bundle, those[0].settings.env_file, *asked.env_files)
    code, git = Code.of(bundle), functools.cache(lambda top: git_of(top, bundle))

    def order(host: Host) -> Order:
        return make_order(host, argv, asked.wishes(app, host), bundle=bundle, cwd=app.cwd, git=git)

    def launched(chosen: Sequence[Host]) -> int:
        return launch_on_all(app, chosen, [order(host) for host in chosen], code, asked)

    if dry_run:
        chosen = those[:count]
        return shown_all(app, chosen, [order(host) for host in chosen], code)
    return _on_those_with_room(app, those, count, launched)


def _on_those_with_room(
    app: App, candidates: Sequence[Host], count: int, launched: Callable[[Sequence[Host]], int]
) -> int:
    """Launch on the first `count` hosts that take the run; what the last ones say stands."""
    hosts = list(candidates)
    while len(hosts) > count:
        try:
            return launched(hosts[:count])
        except (Busy, Unreachable, Refused) as error:
            full = [host for host in hosts[:count] if host.name == error.where]
            if not full:
                raise
            app.say(f"{error.where}: {error.message}, so the next one")
            hosts.remove(full[0])
    return launched(hosts)


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


def candidates(
    app: App, words: tuple[str, ...], exclude: tuple[str, ...], nodes: str | None
) -> tuple[tuple[Host, ...], int]:
    """Return the hosts that may be taken, and how many of them are.

    Those named are all taken; of a group or a pattern it has to be said how many. Raises UsageError.
    """
    hosts, by_name = app.changed(words, exclude), app.by_name(words, exclude)
    if nodes is None and (by_name or len(hosts) == 1):
        return hosts, len(hosts)
    names = ",".join(words)
    if nodes is None:
        raise UsageError(
            f"{names} is {len(hosts)} hosts: say how many of them the run takes",
            hint=f"All: --hosts {names} --nodes all; the first that has room: --hosts {names} --nodes 1",
        )
    if nodes != "all" and not re.fullmatch(r"[1-9]\d*", nodes):
        raise UsageError(f"--nodes {nodes}: a count, or all")
    count = len(hosts) if nodes == "all" else int(nodes)
    if count > len(hosts):
        raise UsageError(f"--nodes {nodes}, and {names} is {len(hosts)} host{'s' * (len(hosts) > 1)}")
    return hosts, count
