"""orch rerun: what ran, once more, from its start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.earlier import AgainCommand, Earlier, argv, find_earlier
from orchestrator.cli.launching import launch_on, shown
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.run_options import Asked, run_options
from orchestrator.cli.runs import rerun_elsewhere
from orchestrator.errors import Unreachable, UsageError

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
    """Run what ran once more from its start: the same code, command, name and GPUs, on the same host.

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
    host = _host(app, earlier.spec, hosts, exclude)
    wishes, diff = wishes_again(app, host, earlier.spec, asked), earlier.diff_of(app)
    order = order_again(earlier.spec, host, "rerun", wishes, argv=words, cwd=app.cwd, diff=diff)
    code = earlier.code(app)
    if dry_run:
        return shown(app, host, order, code)
    try:
        return launch_on(app, host, order, code, asked.manner, more=lambda done: compared(earlier.spec, done))
    except Unreachable as error:
        if error.where == host.name and not hosts:
            error.hint = elsewhere(app, earlier, host)
        raise


def _host(app: App, old: RunSpec, words: tuple[str, ...], exclude: tuple[str, ...]) -> Host:
    """Return the host that is named, else the run's own."""
    own = [h.name for h in app.inventory.hosts if h.name in old.hosts]
    if not words and not own:
        raise UsageError(
            f"{', '.join(old.hosts)}, where run {old.run} was, is in no inventory",
            hint=f"Name another host: orch rerun {old.run} --hosts HOST",
        )
    return one_host(app, words or own, exclude)


def one_host(app: App, words: Sequence[str], exclude: Sequence[str]) -> Host:
    """Return the only host that is named. Raises UsageError when there are several."""
    chosen = app.changed(words, exclude)
    if len(chosen) != 1:
        names = ", ".join(h.name for h in chosen)
        raise UsageError(
            f"{names} are {len(chosen)} hosts, a run takes one", hint=f"Name one: --hosts {chosen[0].name}"
        )
    return chosen[0]


def wishes_again(app: App, host: Host, old: RunSpec, asked: Asked) -> Wishes:
    """Return what is asked of a run that runs again, and say which of its variables are taken from here."""
    from orchestrator.run.again import values_from_here

    names = values_from_here(old, host, asked.env, app.environ, asked.files(app))
    if names and not asked.manner.quiet:
        app.say(f"env     {', '.join(names)} as set here (a record holds names alone)")
    return asked.wishes(app, host, names)


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
