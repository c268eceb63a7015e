"""orch rerun: what ran, once more, from its start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.earlier import AgainCommand, Earlier, argv, find_earlier
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.run_options import Asked, run_options
from orchestrator.cli.runs import rerun_elsewhere
from orchestrator.cli.together import launch_on_all, shown_all
from orchestrator.errors import Unreachable, UsageError
from orchestrator.units import how_many

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.launch import Launched
    from orchestrator.run.order import Wishes
    from orchestrator.run.spec import RunSpec


@click.command("rerun", cls=AgainCommand)
@host_options
@run_options
@click.option("--dry-run", is_flag=True, help="Print what would be launched; -v: the whole script.")
@click.argument("word", required=False, metavar="[RUN] [-- CMD...]", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    asked: Asked,
    dry_run: bool,
    word: str | None,
) -> int:
    """Run what ran once more from its start: the same code, command, name and GPUs, on the same hosts.

    Each of them may be said otherwise. A record has no values of variables: they are taken from here again.
    A run that was launched from here also runs again when its host is gone.

    \b
      orch rerun nightly
      orch rerun nightly --hosts gpu02 --env LR=0.01
      orch rerun 20261130-0214 -d -- python3 train.py --epochs=5
    """
    from orchestrator.run.again import order_again

    words = argv()
    earlier = find_earlier(app, word)
    chosen = hosts_again(app, earlier.spec, hosts, exclude)
    wishes, diff = all_wishes_again(app, chosen, earlier.spec, asked), earlier.diff_of(app)
    orders = [
        order_again(earlier.spec, host, "rerun", wish, argv=words, cwd=app.cwd, diff=diff)
        for host, wish in zip(chosen, wishes, strict=True)
    ]
    code = earlier.code(app)
    if dry_run:
        return shown_all(app, chosen, orders, code)
    try:
        return launch_on_all(app, chosen, orders, code, asked, more=lambda done: compared(earlier.spec, done))
    except Unreachable as error:
        if [error.where] == [host.name for host in chosen] and not hosts:
            error.hint = elsewhere(app, earlier, chosen[0])
        raise


def hosts_again(app: App, old: RunSpec, words: tuple[str, ...], exclude: tuple[str, ...]) -> tuple[Host, ...]:
    """Return the hosts that are named, else the run's own, in the order of ranks.

    Raises UsageError where a group or a pattern is not as many as the run had, and for its own that are in no
    inventory.
    """
    known = {host.name for host in app.inventory.hosts}
    gone = [name for name in old.hosts if name not in known]
    if not words and gone:
        one = len(old.hosts) == 1
        raise UsageError(
            f"{', '.join(gone)}, where run {old.run} was, is in no inventory",
            hint=f"Name {'another host' if one else 'all hosts'}: orch rerun {old.run} "
            f"--hosts {'HOST' if one else ','.join('HOST' for _ in old.hosts)}",
        )
    chosen = app.changed(words or old.hosts, exclude)
    if len(chosen) != len(old.hosts) and words and not app.by_name(words, exclude):
        raise as_many(app, old, [host.name for host in chosen])
    return chosen


def as_many(app: App, old: RunSpec, names: Sequence[str]) -> UsageError:
    """Return the error for another number of hosts than a run had."""
    had, count = len(old.hosts), len(names)
    return UsageError(
        f"{', '.join(names)} {'is' if count == 1 else 'are'} {how_many(count, 'host')}, the run had {had}",
        hint=f"Name {had}: --hosts {','.join([*names, *old.hosts][:had])}",
    )


def all_wishes_again(app: App, hosts: Sequence[Host], old: RunSpec, asked: Asked) -> list[Wishes]:
    """Return what is asked of each worker of a run that runs again, and say what is taken from here."""
    from orchestrator.run.again import values_from_here

    names = [values_from_here(old, host, asked.env, app.environ, asked.files(app)) for host in hosts]
    if (taken := dict.fromkeys(name for own in names for name in own)) and not asked.manner.quiet:
        app.say(f"env     {', '.join(taken)} as set here (a record holds names alone)")
    return [asked.wishes(app, host, own) for host, own in zip(hosts, names, strict=True)]


def compared(old: RunSpec, launched: Launched) -> Iterator[str]:
    """Yield lines on what the environment is beside that of the earlier run."""
    from orchestrator.run.again import image_words, package_words

    if words := image_words(old, launched.spec):
        yield f"image   {words}"
    if words := package_words(old, launched.spec):
        yield f"note: {words}"


def elsewhere(app: App, earlier: Earlier, host: Host) -> str | None:
    """Return the hint to run again on another host, where there is one."""
    anew = rerun_elsewhere(app, earlier.spec.name or earlier.spec.run, host.name)
    return f"On another host: {anew}" if anew else None
