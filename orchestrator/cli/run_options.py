"""The options that all verbs share which launch a run: `train`, `rerun`, `resume`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.launching import Manner
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.order import Naming, Retries, Wishes

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Asked:
    """What was asked of a run, besides its command."""

    env: tuple[str, ...]
    env_files: tuple[str, ...]
    naming: Naming
    gpus: str  # as the spec has it; empty where nothing was said
    share: bool
    manner: Manner
    timeout: float | None = None  # seconds; None where nothing was said
    retries: Retries | None = None
    skip_checks: bool = False  # of the network and the environments of several hosts

    def files(self, app: App) -> list[Path]:
        """Return the files of --env-file."""
        return [app.cwd / Path(file).expanduser() for file in self.env_files]

    def wishes(self, app: App, host: Host, names: Sequence[str] = ()) -> Wishes:
        """Return it with the values of the variables; those of `names` come from here too.

        Raises UsageError and ConfigError for values that can't be had.
        """
        from orchestrator.run.order import Retries, Wishes, environment

        env = environment(host, (*names, *self.env), app.environ, self.files(app))
        retries = self.retries or Retries()
        return Wishes(self.naming, env, self.gpus, self.share, self.manner.watch, self.timeout, retries)


_OPTIONS = (
    click.option(
        "--env", "-e", multiple=True, metavar="K=V", help="An environment variable; K alone: from here."
    ),
    click.option(
        "--env-file",
        "env_files",
        multiple=True,
        metavar="FILE",
        shell_complete=completing.files,
        help="NAME=VALUE lines, as docker reads them; the values are in no record (repeatable).",
    ),
    click.option("--name", metavar="NAME", help="A name to call the run by."),
    click.option("--note", default="", metavar="TEXT", help="A line about it, kept in its record."),
    click.option("--tag", "tags", multiple=True, metavar="T", help="A word to list it by (repeatable)."),
    click.option("--again", is_flag=True, help="Although a run of this name lives."),
    click.option(
        "--gpus", default="", metavar="N", help="How many GPUs: a count, all, none. Default: all free ones."
    ),
    click.option("--gpu-ids", metavar="IDS", help="Which GPUs: indices or UUIDs, joined by commas."),
    click.option("--share", is_flag=True, help="Also take GPUs that someone uses."),
    click.option(
        "--timeout",
        metavar="TIME",
        help="End it after so long (90s, 30m, 1h, 1d12h): SIGTERM, 30 s, SIGKILL; it has failed then.",
    ),
    click.option(
        "--max-restarts",
        type=click.IntRange(0),
        metavar="N",
        help="Start it again so often, all hosts of it, in the same work folders, when a host or GPU fails.",
    ),
    click.option(
        "--retry-on",
        metavar="CAUSES",
        help="When instead: lost, nccl, gpu, exit, signal, oom, exception, timeout, joined by commas.",
    ),
    click.option(
        "--skip-checks",
        is_flag=True,
        help="Of several hosts: don't compare their environments, nor try the network between them.",
    ),
    click.option("-d", "--detach", is_flag=True, help="Return as soon as the command runs."),
    click.option(
        "--wait", is_flag=True, help="Show the log until the end, and end with the command's status."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but the run's id."),
)


def _seconds(timeout: str | None) -> float | None:
    from orchestrator.units import seconds_of

    try:
        return None if timeout is None else seconds_of(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout {timeout}: {error}") from error


def _retries(most: int | None, causes: str | None) -> Retries:
    from orchestrator.run.order import CAUSES, Retries

    named = None if causes is None else tuple(word.strip() for word in causes.split(","))
    for cause in named or ():
        if cause not in CAUSES:
            raise UsageError(
                f"--retry-on {causes}: no cause '{cause}'", hint=f"There is: {', '.join(CAUSES)}."
            )
    return Retries(most, named)


def run_options(function: F) -> F:
    """Give a verb the options of a launch; it gets them as `asked`. Raises UsageError."""

    @functools.wraps(function)
    def joined(
        *args: Any,
        env: tuple[str, ...],
        env_files: tuple[str, ...],
        name: str | None,
        note: str,
        tags: tuple[str, ...],
        again: bool,
        gpus: str,
        gpu_ids: str | None,
        share: bool,
        timeout: str | None,
        max_restarts: int | None,
        retry_on: str | None,
        skip_checks: bool,
        detach: bool,
        wait: bool,
        quiet: bool,
        **kwargs: Any,
    ) -> Any:
        from orchestrator.run.order import Naming, wanted_gpus

        if detach and wait:
            raise UsageError("--detach and --wait exclude each other")
        naming, manner = Naming(name, note, tags, again), Manner(detach, wait, quiet)
        retries, gpus = _retries(max_restarts, retry_on), wanted_gpus(gpus, gpu_ids)
        time = _seconds(timeout)
        asked = Asked(env, env_files, naming, gpus, share, manner, time, retries, skip_checks)
        return function(*args, asked=asked, **kwargs)

    wrapped: Any = joined
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]
