"""What the verbs share: the inventory, the choice of hosts, connections, and how failures are told.

    @click.command("doctor")
    @host_arguments          # HOSTS... --hosts -x --inventory -v (options.py)
    @pass_app
    def command(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...]) -> int:
        chosen = app.looked_at(hosts, exclude)          # or app.changed(hosts, exclude)
        outcomes = app.each(chosen, work)               # work(machine) on every host, in inventory order
        return app.close(outcomes)                      # tells the failures, returns the exit code

Tests hand in an App of their own: `cli.main([...], obj=App(connect=fake), standalone_mode=False)`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrator.cli import tracing
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import FAILED, OK, UNREACHABLE, OrchError, Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.hosts.kept import Kept
    from orchestrator.inventory import Host, Inventory
    from orchestrator.inventory.patterns import Selection

T = TypeVar("T")


def _connect(host: Host) -> Machine:
    """Reach a host; on a terminal an unknown host key may be accepted by its person."""
    from orchestrator.hosts.connect import connect

    return connect(host, prompt=_confirm if sys.stdin and sys.stdin.isatty() else None)


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder is gone", hint="Change to one that is there") from None


def _confirm(question: str) -> bool:
    with WAITING.hidden():
        return click.confirm(question, default=False, err=True)


@dataclass
class App:
    """One call of the command line. `connect` is the only way to a host."""

    connect: Callable[[Host], Machine] = _connect
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=_cwd)
    files: tuple[Path, ...] = ()
    flags: dict[str, str] = field(default_factory=dict)
    verbose: int = 0
    inside: bool = False
    """Whether the verb is a part of another one, which says what comes next."""

    @functools.cached_property
    def inventory(self) -> Inventory:
        """The inventory; its warnings are told once, on stderr."""
        from orchestrator.inventory import find_files, load

        inventory = load(
            self.files or find_files(self.cwd, self.environ), environ=self.environ, flags=self.flags
        )
        for warning in inventory.warnings:
            self.say(f"warning: {warning}")
        return inventory

    @staticmethod
    def interactive() -> bool:
        """Whether a person can be asked: both stdin and stderr are terminals."""
        return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())

    @staticmethod
    def say(line: str) -> None:
        """Talk to the person: stderr, so that stdout stays data."""
        WAITING.say(line)

    def looked_at(self, words: Sequence[str], exclude: Sequence[str] = ()) -> tuple[Host, ...]:
        """Choose hosts for a verb that only looks: all of them when none is named."""
        return self._selected(words, exclude)

    def changed(self, words: Sequence[str], exclude: Sequence[str] = ()) -> tuple[Host, ...]:
        """Choose hosts for a verb that changes something: the only one there is, else they must be named."""
        hosts = self._selected(words, exclude)
        if words or len(hosts) == 1:
            return hosts
        names = ",".join(h.name for h in hosts[:8])
        raise UsageError(f"which hosts? There are {len(hosts)}", hint=f"Name them: --hosts {names}")

    def by_name(self, words: Sequence[str], exclude: Sequence[str] = ()) -> bool:
        """Tell whether each host is asked for by its own name, and none by a group, glob or range."""
        return bool(words) and self._selection(words, exclude).by_name

    def _selected(self, words: Sequence[str], exclude: Sequence[str]) -> tuple[Host, ...]:
        return self._selection(words, exclude).hosts

    def _selection(self, words: Sequence[str], exclude: Sequence[str]) -> Selection:
        from orchestrator.hosts.ssh_config import is_named

        return self.inventory.select(words, exclude, is_named=is_named)

    def each(
        self,
        hosts: Sequence[Host],
        work: Callable[[Machine], T],
        *,
        told: Callable[[Outcome[T]], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Outcome[T]]:
        """Do `work` on every host at once, at most `parallel` of them; every outcome is kept.

        On a terminal it is said who is still waited for. `told` and `meanwhile`: see hosts.fleet.each.
        """
        from orchestrator.hosts.fleet import each

        def done(outcome: Outcome[T]) -> None:
            WAITING.done(outcome.host.name)
            if told:
                told(outcome)

        parallel = min((h.settings.parallel for h in hosts), default=1)
        with WAITING.on(h.name for h in hosts):
            return each(hosts, work, connect=self.machine, parallel=parallel, told=done, meanwhile=meanwhile)

    @functools.cached_property
    def _kept(self) -> Kept:
        from orchestrator.hosts.kept import Kept

        return Kept(self.connect)

    def machine(self, host: Host) -> Machine:
        """Reach a host: one connection per host and call, kept until `finish`."""
        return self._kept.connect(host)

    def finish(self) -> None:
        """Close all connections of this call."""
        if "_kept" in self.__dict__:
            self._kept.close()

    def close(self, outcomes: Sequence[Outcome[Any]]) -> int:
        """Tell every failure in one line, that of many hosts once, and return the exit code."""
        from orchestrator.cli.folding import folded_errors

        for error in folded_errors(outcomes):
            tell(error)
        return exit_code(outcomes)


def tell(error: OrchError) -> None:
    """Say an error in one line, with the lines that explain it (a container's last words) before it."""
    if error.details:
        for line in error.details.rstrip().splitlines():
            click.echo(f"  | {line}", err=True)
    click.echo(f"orch: {error}", err=True)
    tracing.log().write(f"orch: {error}")


def exit_code(outcomes: Sequence[Outcome[Any]]) -> int:
    """0 when all is well; 69 when no host was reached; the error's own code for one host; else 1."""
    errors: list[OrchError] = [o.error for o in outcomes if o.error]
    if not errors:
        return OK
    if len(outcomes) == 1:
        return errors[0].exit_code
    if len(errors) == len(outcomes) and all(isinstance(e, Unreachable) for e in errors):
        return UNREACHABLE
    return FAILED
