"""How `train`, `rerun` and `resume` launch a run on several hosts: on all of them, or on none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrator.cli.app import App, tell
from orchestrator.cli.folding import folded_errors
from orchestrator.cli.launching import (
    DRAWS,
    Code,
    Manner,
    gpus_named,
    launch_on,
    shown,
    tell_changes,
    tell_next,
)
from orchestrator.errors import Interrupted, OrchError
from orchestrator.inventory.folded import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.cli.run_options import Asked
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host
    from orchestrator.run.checks import Look
    from orchestrator.run.cluster import Cluster
    from orchestrator.run.launch import Launched, Order
    from orchestrator.run.together import Party

T = TypeVar("T")


@dataclass(frozen=True)
class Together:
    """A run that was launched on several hosts; `states` are the workers' when they had met."""

    party: Party
    code: Code
    launched: tuple[Launched, ...]
    states: tuple[Mapping[str, Any], ...]
    new: bool  # its code was sent to a host for it

    @property
    def ended(self) -> bool:
        """Whether the run is over already: a worker has failed, or all have ended."""
        ends = [state for state in self.states if state.get("ended")]
        return len(ends) == len(self.states) or any(s.get("state") != "succeeded" for s in ends)


def launch_on_all(
    app: App,
    hosts: Sequence[Host],
    orders: Sequence[Order],
    code: Code,
    asked: Asked,
    *,
    more: Callable[[Launched], Iterable[str]] = lambda launched: (),
) -> int:
    """Launch a run on one host or on several; see `launch_on` and `launch_together`."""
    from orchestrator.run.together import party

    if len(hosts) == 1:
        return launch_on(app, hosts[0], orders[0], code, asked.manner, more=more)
    together = party(hosts, orders)
    return launch_together(app, together, code, asked.manner, skip_checks=asked.skip_checks, more=more)


def shown_all(app: App, hosts: Sequence[Host], orders: Sequence[Order], code: Code) -> int:
    """Print what would be launched, and on several hosts the cluster that they would be."""
    from orchestrator.run.cluster import cluster_of
    from orchestrator.run.together import party

    if len(hosts) == 1:
        return shown(app, hosts[0], orders[0], code)
    together, cluster = party(hosts, orders), cluster_of(hosts)
    shown(app, hosts[0], together.orders[0], code)
    for line in cluster_lines(cluster):
        click.echo(line)
    return 0


def launch_together(
    app: App,
    party: Party,
    code: Code,
    manner: Manner,
    *,
    skip_checks: bool = False,
    more: Callable[[Launched], Iterable[str]] = lambda launched: (),
) -> int:
    """Launch a run on its hosts, tell of it and show what is to be seen; returns the exit code.

    `more` gives lines that belong below that of the run, for each worker. Raises OrchError.
    """
    begun = begin_together(app, party, code, manner, skip_checks=skip_checks)
    return tell_together(app, begun, manner, more)


def begin_together(
    app: App,
    party: Party,
    code: Code,
    manner: Manner,
    *,
    skip_checks: bool,
    prepared: Callable[[Party], Party] = lambda party: party,
    undo: Callable[[], None] = lambda: None,
) -> Together:
    """Launch a run on all of its hosts, and wait until its commands run. Raises OrchError: then on none.

    `prepared` does what has to be done when the checks are past; `undo` takes it back where the launch fails.
    """
    from orchestrator.cli.together_checks import check, made_ready
    from orchestrator.run import seen
    from orchestrator.run.checks import settled
    from orchestrator.run.cluster import cluster_of

    cluster = cluster_of(party.hosts)
    looks, new = made_ready(app, party, cluster, code)
    cluster = settled(cluster, looks)
    if not skip_checks:
        check(app, party, cluster, looks, quiet=manner.quiet)
    party = prepared(_introduced(party, cluster, looks))
    try:
        party, launched = _drawn(app, party)
    except BaseException:
        undo()
        raise
    seen.remember(seen.file(app.environ), launched[0].spec, party.orders[0].diff)
    return Together(party, code, launched, _met(app, party, launched, manner.watch), new)


def _introduced(party: Party, cluster: Cluster, looks: Sequence[Look]) -> Party:
    from orchestrator.run.checks import network_env
    from orchestrator.run.together import introduced

    network = [network_env(look, host.settings) for host, look in zip(party.hosts, looks, strict=True)]
    ports = [look.port for look in looks]
    return introduced(party, cluster, ports=ports, link=looks[0].link, network=network)


def _drawn(app: App, party: Party) -> tuple[Party, tuple[Launched, ...]]:
    """Launch under an id that no other run has on any of the hosts."""
    from orchestrator.run.refusals import Taken

    for _ in range(DRAWS - 1):
        try:
            return party, _launched(app, party)
        except Taken:
            if any(order.takes and order.takes.staged for order in party.orders):
                raise
            party = party.anew()
    return party, _launched(app, party)


def _launched(app: App, party: Party) -> tuple[Launched, ...]:
    """Launch on all hosts at once; where one refuses, what began on the others is taken back."""
    from orchestrator.run.launch import launch

    try:
        outcomes = app.each(party.hosts, lambda machine: launch(machine, party.order(machine.host.name)))
    except KeyboardInterrupt:
        raise _interrupted(app, party) from None
    launched = tuple(o.value for o in outcomes if o.value)
    if len(launched) == len(outcomes):
        return launched
    return _refused(app, party, outcomes)


def _refused(app: App, party: Party, outcomes: Sequence[Outcome[Launched]]) -> tuple[Launched, ...]:
    """Take back what began, and raise the error of the host that refused."""
    began = [o.host for o in outcomes if o.value]
    unknown = [o.host for o in outcomes if _may_have_begun(o.error)]
    try:
        left = _take_back(app, party, began) + _take_back(app, party, unknown, unknown=True)
    except KeyboardInterrupt:
        left = [(host.name, None) for host in (*began, *unknown)]
    errors = folded_errors(outcomes)
    for error in errors[1:]:
        tell(error)
    names = [host.name for host in (*began, *unknown)]
    raise _with_rest(errors[0], party.spec.run, names, [host for host, _ in left])


def _may_have_begun(error: OrchError | None) -> bool:
    """Whether something may have begun on a host that gave this error: it was lost, or failed halfway."""
    from orchestrator.errors import HostError, NotPermitted, Unreachable
    from orchestrator.run.refusals import Unplaced

    return isinstance(error, HostError) and not isinstance(error, Unreachable | NotPermitted | Unplaced)


def _take_back(
    app: App, party: Party, hosts: Sequence[Host], *, unknown: bool = False
) -> list[tuple[str, OrchError | None]]:
    """Take workers back; return the hosts on which something may be left, and why."""
    from orchestrator.run.together import withdraw

    outcomes = app.each(hosts, lambda m: withdraw(m, party.order(m.host.name), unknown=unknown))
    return [(o.host.name, o.error) for o in outcomes if o.error]


def _with_rest(error: OrchError, run: str, begun: Sequence[str], left: Sequence[str]) -> OrchError:
    """Return the error that says too what became of the run on hosts where it had, or may have, begun."""
    gone = [host for host in begun if host not in left]
    if gone:
        error.message = f"{error.message} (taken back on {', '.join(gone)})"
    if left:
        names = ",".join(left)
        ends = f"Run {run} may have been started on {names}, and ends by itself there within minutes"
        error.hint = f"{ends}: orch ps {names}"
    elif run in (error.hint or ""):  # it may have been started there: no more
        error.hint = "Try again."
    return error


def _interrupted(app: App, party: Party) -> Interrupted:
    """Take all back after Ctrl-C, and return what is to be said of it."""
    names = folded(host.name for host in party.hosts)
    try:
        left = [host for host, _ in _take_back(app, party, party.hosts, unknown=True)]
    except KeyboardInterrupt:
        left = [host.name for host in party.hosts]
    if not left:
        return Interrupted(f"run {party.spec.run} was taken back: nothing runs", where=names)
    names = folded(left)
    return Interrupted(
        f"run {party.spec.run} may have been started", where=names, hint=f"See: orch ps {names}"
    )


def _met(app: App, party: Party, launched: Sequence[Launched], watch: int) -> tuple[Mapping[str, Any], ...]:
    """Wait until the workers have met and their commands run; a host that goes silent then is told."""
    from orchestrator.run.together import met

    begun = {worker.host: worker for worker in launched}
    try:
        outcomes = app.each(party.hosts, lambda m: met(m, begun[m.host.name], watch))
    except KeyboardInterrupt:
        names = folded(begun)
        message = f"run {party.spec.run} was launched, and its workers may have begun"
        raise Interrupted(message, where=names, hint=f"See: orch ps {names}") from None
    for error in folded_errors(outcomes):
        tell(error)
    return tuple(o.value or begun[o.host.name].state for o in outcomes)


def tell_together(
    app: App, begun: Together, manner: Manner, more: Callable[[Launched], Iterable[str]]
) -> int:
    """Tell of a run that was launched, and show what is to be seen; returns the exit code."""
    from orchestrator.inventory.find import cache_folder
    from orchestrator.run.code import kept

    run = begun.launched[0].spec.run
    if manner.quiet:
        click.echo(run)
    else:
        app.say(begun.code.line(begun.new))
        click.echo(f"run     {run} on {_where(begun.launched)}")
        for line in dict.fromkeys(line for worker in begun.launched for line in more(worker)):
            app.say(line)
        for host, worker in zip(begun.party.hosts, begun.launched, strict=True):
            tell_changes(app, host, worker)
        if not begun.ended:
            tell_next(app, begun.launched[0], manner)
    if begun.code.bundle:
        kept.keep(begun.code.bundle, cache_folder(app.environ))
    return _see(app, begun, manner)


def _where(launched: Sequence[Launched]) -> str:
    """Return `gpu01, gpu02, GPUs 0-3 each`, or with the GPUs of each where they differ."""
    names = ", ".join(worker.host for worker in launched)
    if len({worker.indices for worker in launched}) == 1:
        gpus = gpus_named(launched[0].indices)
        return f"{names}{gpus}{' each' * bool(gpus)}"
    return "; ".join(f"{worker.host}{gpus_named(worker.indices)}" for worker in launched)


def _see(app: App, begun: Together, manner: Manner) -> int:
    from orchestrator.cli.runs import find_run
    from orchestrator.cli.tail import follow_run, report_end

    run, hosts = begun.launched[0].spec.run, [host.name for host in begun.party.hosts]
    if manner.follows:
        return follow_run(app, find_run(app, run, hosts))
    if begun.ended:
        return report_end(app, find_run(app, run, hosts, tail=4000))
    return 0


def cluster_lines(cluster: Cluster) -> list[str]:
    """Return what is known of a cluster before a host was asked; `PORT` is what each is found free there."""
    from orchestrator.run.cluster import endpoint, tf_config

    ports = [m.ports[0] if m.ports else 0 for m in cluster.members]
    ends = [endpoint(m.candidate or m.host, p) for m, p in zip(cluster.members, ports, strict=True)]
    ends = [end if port else f"{end[:-1]}PORT" for end, port in zip(ends, ports, strict=True)]
    lines = []
    for rank, member in enumerate(cluster.members):
        free = f"ports {member.ports[0]}-{member.ports[-1]}" if member.ports else "any free port"
        lines.append(f"worker {rank}   {member.host}   {member.candidate or 'its own address'}   {free}")
        lines.append(f"  TF_CONFIG={tf_config(ends, rank)}")
    return lines


def all_values(outcomes: Sequence[Outcome[T]]) -> list[T]:
    """Return what all hosts gave. Raises the first error, after the others were told."""
    errors = folded_errors(outcomes)
    for error in errors[1:]:
        tell(error)
    if errors:
        raise errors[0]
    return [o.value for o in outcomes if o.value is not None]
