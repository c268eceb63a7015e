"""How `train`, `rerun` and `resume` launch a run, after a deploy or an upload where one is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import Interrupted, OrchError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.inventory import Host
    from orchestrator.run.code.bundle import Bundle
    from orchestrator.run.launch import Launched, Order

EARLY = 5
"""Seconds in which a launch that nobody watches stays to see whether the command ends at once."""

DRAWS = 8
"""Ids that are drawn for a run until one is free."""


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


@dataclass
class Code:
    """The code of a run: a bundle that is here, or one that is brought when a host lacks it."""

    digest: str
    bring: Callable[[], Bundle]
    bundle: Bundle | None = None

    @classmethod
    def of(cls, bundle: Bundle) -> Code:
        """Return code that is here."""
        return cls(bundle.digest, lambda: bundle, bundle)

    def whole(self) -> Bundle:
        """Return the bundle, brought where it is not here yet."""
        if self.bundle is None:
            self.bundle = self.bring()
        return self.bundle

    def line(self, new: bool | None) -> str:
        """Return the line about it; `new`: whether it was sent, None where nobody knows yet."""
        from orchestrator.units import how_many, size

        known = "" if new is None else " (new)" if new else " (there already)"
        what = f"{how_many(self.bundle.count, 'file')}, {size(self.bundle.size)}, " if self.bundle else ""
        return f"code    {what}bundle {self.digest[:6]}{known}"


def shown(app: App, host: Host, order: Order, code: Code) -> int:
    """Print what would be launched."""
    from orchestrator.hosts.masking import masked
    from orchestrator.run.launch import launch_line, script

    app.say(code.line(None))
    where = ", ".join(order.spec.hosts)
    app.say(f"run     {order.spec.run} on {where}, in work/{order.spec.sub}".rstrip("/"))
    click.echo(launch_line(order.spec))
    if app.verbose:
        click.echo(masked(script(order, host.name).text))
    return 0


def launch_on(
    app: App,
    host: Host,
    order: Order,
    code: Code,
    manner: Manner,
    *,
    more: Callable[[Launched], Iterable[str]] = lambda launched: (),
) -> int:
    """Launch a run, tell of it and show what is to be seen. Raises OrchError; returns the exit code.

    `more` gives lines that belong below that of the run.
    """
    begun = begin(app, host, order, code)
    return tell(app, begun, manner, more(begun.launched))


@dataclass(frozen=True)
class Begun:
    """A run that was launched; `new`: its code was sent for it."""

    host: Host
    code: Code
    launched: Launched
    new: bool


def begin(app: App, host: Host, order: Order, code: Code) -> Begun:
    """Launch a run. Raises OrchError."""
    from orchestrator.run import seen
    from orchestrator.run.refusals import NeedsBundle

    with WAITING.on([host.name]):
        machine = app.machine(host)
    new = False
    try:
        launched = _drawn(app, machine, order)
    except NeedsBundle:
        new = True
        _upload(app, host, order, code.whole())
        launched = _drawn(app, machine, order)
    seen.remember(seen.file(app.environ), launched.spec, order.diff)
    return Begun(host, code, launched, new)


def tell(app: App, begun: Begun, manner: Manner, more: Iterable[str]) -> int:
    """Tell of a run that was launched, and show what is to be seen; returns the exit code."""
    from orchestrator.inventory.find import cache_folder
    from orchestrator.run.code import kept

    _tell(app, begun, manner)
    if not manner.quiet:
        for line in more:
            app.say(line)
        tell_changes(app, begun.host, begun.launched)
        tell_next(app, begun.launched, manner)
    if begun.code.bundle:  # only now: it may take a moment, and nobody waits for it
        kept.keep(begun.code.bundle, cache_folder(app.environ))
    return _see(app, begun.host, begun.launched, manner)


def _drawn(app: App, machine: Machine, order: Order) -> Launched:
    """Launch under an id that no other run there has: of many within a minute, two may draw the same."""
    from orchestrator.run.refusals import Taken

    for _ in range(DRAWS - 1):
        try:
            return _launched(app, machine, order)
        except Taken:
            if order.takes and order.takes.staged:  # the claim on the run's own host names the new one
                raise
            order = order.anew()
    return _launched(app, machine, order)


def _launched(app: App, machine: Machine, order: Order) -> Launched:
    """Launch, after a deploy where one is missing and wanted."""
    from orchestrator.container.ready import NoEnvironment

    try:
        try:
            return _waited(machine, order)
        except NoEnvironment:
            if not offer_deploy(app, [machine.host]):
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


def offer_deploy(app: App, hosts: Sequence[Host]) -> bool:
    """On a terminal, show the plan of the deploy that is missing; it asks before it does anything."""
    if not app.interactive():
        return False
    from orchestrator.cli.main import cli
    from orchestrator.inventory.folded import folded

    names = folded(host.name for host in hosts)
    app.say(f"{names}: nothing is deployed here yet, so first the deploy:")
    app.inside = True
    return cli.main(["deploy", "--hosts", names], obj=app, standalone_mode=False) in (None, 0)


def _upload(app: App, host: Host, order: Order, bundle: Bundle) -> None:
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.run.code.upload import upload

    with bytes_sent(f"{host.name}: sending code", bundle.size) as sent:
        upload(app.machine(host), order.place, bundle, told=sent)


def _tell(app: App, begun: Begun, manner: Manner) -> None:
    launched = begun.launched
    if manner.quiet:
        click.echo(launched.spec.run)
        return
    app.say(begun.code.line(begun.new))
    click.echo(f"run     {launched.spec.run} on {launched.host}{gpus_named(launched.indices)}")


def tell_changes(app: App, host: Host, launched: Launched) -> None:
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


def tell_next(app: App, launched: Launched, manner: Manner) -> None:
    """Say which commands a person wants next."""
    word = launched.spec.name or launched.spec.run
    if not manner.wait and not launched.state.get("ended"):
        app.say(f"next:   orch tail {word}      orch ps      orch stop {word}")


def gpus_named(indices: Sequence[int]) -> str:
    """Return `, GPU 2` or `, GPUs 0-3,6`; empty where there are none."""
    from orchestrator.units import ranges

    if not indices:
        return ""
    return f", GPU{'s' if len(indices) > 1 else ''} {ranges(indices)}"


def _see(app: App, host: Host, launched: Launched, manner: Manner) -> int:
    """Follow the run, or report a command that has ended already."""
    from orchestrator.cli.runs import find_run
    from orchestrator.cli.tail import follow_run, report_end

    if manner.follows:
        return follow_run(app, find_run(app, launched.spec.run, [host.name]))
    if launched.state.get("ended"):
        return report_end(app, find_run(app, launched.spec.run, [host.name], tail=4000))
    return 0
