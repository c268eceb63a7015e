"""orch resume: on from where a run stopped, with its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.collecting import collected, without
from orchestrator.cli.earlier import AgainCommand, Earlier, argv, check_training
from orchestrator.cli.launching import Code, Manner, begin, launch_on, tell
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.rerun import all_wishes_again, as_many
from orchestrator.cli.resume_work import Moved, Work, resume_together
from orchestrator.cli.run_options import Asked, run_options
from orchestrator.cli.runs import FoundRun, Worker, find_run, rerun_elsewhere
from orchestrator.errors import Busy, HostError, Interrupted, LostConnection, Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.launch import Order


@click.command("resume", cls=AgainCommand)
@host_options
@run_options
@click.option("--same-code", is_flag=True, help="The code that the run had, not the folder's as it is now.")
@click.option("--max-size", default="200m", show_default=True, help="The largest code to send.")
@click.argument("word", required=False, metavar="[RUN] [-- CMD...]", shell_complete=completing.runs)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    asked: Asked,
    same_code: bool,
    max_size: str,
    word: str | None,
) -> int:
    """Go on with a run that has ended: a new run takes over its work folder, with the checkpoints in it.

    The folder's code as it is now is laid over the run's. What the run wrote stays; where it and you changed
    the same file, yours is taken and the run's stands beside it. On another host the work is copied there. A
    run on several hosts goes on on as many, each worker with the work of the one of its rank.

    \b
      orch resume nightly
      orch resume nightly --hosts gpu02 -- python3 train.py --epochs=200
    """
    words = argv()
    found = _find(app, word)
    workers = _resumable(found)
    chosen = _targets(app, found, workers, hosts, exclude)
    orders = _orders(app, found, workers, chosen, words, asked, same_code)
    if same_code:
        code = Earlier(found.spec, found=found).code(app)
    else:
        code, orders = _present(app, chosen, orders, asked, max_size)
    work = Work(found, workers, chosen)
    if len(chosen) > 1:
        return resume_together(app, work, orders, code, asked)
    if chosen[0].name == workers[0].host.name:
        return launch_on(app, chosen[0], orders[0], code, asked.manner, more=work.lines)
    return _elsewhere(app, work, orders[0], code, asked.manner)


def _find(app: App, word: str | None) -> FoundRun:
    try:
        found = find_run(app, word)
    except Unreachable as error:
        anew = rerun_elsewhere(app, word, error.where)
        begin_anew = f", or start from the beginning elsewhere: {anew}" if anew else ""
        error.hint = f"The run's files are there: try again when it is back{begin_anew}"
        raise
    check_training(found.spec)
    return found


def _resumable(found: FoundRun) -> tuple[Worker, ...]:
    """Return the workers whose work is taken over, by rank. Raises OrchError for a run that can't go on."""
    from orchestrator.container.identity import person_of
    from orchestrator.run.status import judge

    for host, error in found.failures:
        if host in found.spec.hosts:
            raise error
    if found.absent and len(found.spec.hosts) > 1:
        hint = f"Start it from the beginning: orch rerun {found.id}"
        raise HostError(f"there is no record of run {found.id}", where=found.absent[0], hint=hint)
    for worker in found.workers:
        where = worker.host.name
        if judge(worker.record).live or worker.record.lock == "held":
            hint = f"End it first: orch stop {found.id}"
            raise Busy(f"run {found.id} still runs", where=where, hint=hint)
        if found.spec.person != person_of(worker.host).name:
            hint = f"Start it from the beginning: orch rerun {found.id}"
            raise Refused(
                f"run {found.id} is {found.spec.person}'s, and so are its files", where=where, hint=hint
            )
    return found.workers


def _targets(
    app: App,
    found: FoundRun,
    workers: Sequence[Worker],
    words: tuple[str, ...],
    exclude: tuple[str, ...],
) -> tuple[Host, ...]:
    """Return the hosts that are named, as many as the run had, else its own."""
    if not words:
        return tuple(worker.host for worker in workers)
    chosen = app.changed(words, exclude)
    if len(chosen) != len(workers):
        raise as_many(app, found.spec, [host.name for host in chosen])
    return chosen


def _orders(
    app: App,
    found: FoundRun,
    workers: Sequence[Worker],
    hosts: Sequence[Host],
    words: tuple[str, ...],
    asked: Asked,
    same_code: bool,
) -> list[Order]:
    """Return the orders that take the work over, each its rank's, with the code that the run had."""
    from orchestrator.run.again import order_again
    from orchestrator.run.resume import taking

    stale = [_stale(app, worker, asked.naming.again) for worker in workers]
    wishes = all_wishes_again(app, hosts, found.spec, asked)
    diff = Earlier(found.spec, found=found).diff_of(app) if same_code else ""
    orders = []
    for worker, host, old, wish in zip(workers, hosts, stale, wishes, strict=True):
        order = order_again(found.spec, host, "resume", wish, argv=words, cwd=app.cwd, diff=diff)
        place = worker.record.place if host.name == worker.host.name else order.place
        orders.append(replace(order, takes=taking(worker.record, old), place=place))
    return orders


def _present(
    app: App, hosts: Sequence[Host], orders: Sequence[Order], asked: Asked, max_size: str
) -> tuple[Code, list[Order]]:
    """Return the code of the folder as it is now, and the orders with it."""
    from orchestrator.container.identity import identity_of
    from orchestrator.run.order import git_of, is_trainer

    host, order = hosts[0], orders[0]
    project = identity_of(host, app.cwd).project
    assert order.takes
    own = is_trainer(order.spec.argv)
    if project.name != order.spec.project:
        raise UsageError(
            f"run {order.takes.run} is of project {order.spec.project}, this folder is {project.name}",
            hint="Call it in that project's folder, or take the code that it had: --same-code",
        )
    bundle, _ = collected(app, host, () if own else order.spec.argv, max_size)
    bundle = without(app, bundle, host.settings.env_file, *asked.env_files)
    git, diff = git_of(project.folder, bundle)
    specs = [replace(order.spec, bundle=bundle.digest, git=git) for order in orders]
    present = [replace(o, spec=spec, diff=diff) for o, spec in zip(orders, specs, strict=True)]
    return Code.of(bundle), present


def _stale(app: App, worker: Worker, again: bool) -> str:
    """Return the run that `continued_by` may name all the same: one that never began, or any with --again.

    Raises Refused when the run goes on already.
    """
    from orchestrator.run.refusals import not_resumable

    record = worker.record
    by, on = record.continued_by, record.continued_on
    if not by or again:
        return by
    host = next((h for h in app.inventory.hosts if h.name == on), None)
    if host is None or _began(app, host, by):
        error = not_resumable("resumed", by, record.spec.run, worker.host.name)
        if on != record.host:
            error.hint = f"{error.hint}; or go on from the files on {record.host} all the same: --again"
        raise error
    return by if on != record.host else ""  # on the same host its work may have moved already


def _began(app: App, host: Host, run: str) -> bool:
    """Whether a run is on a host; yes where nobody can say."""
    from orchestrator.cli.runs import read_records

    (outcome,) = app.each([host], lambda machine: read_records(machine, run=run))
    return bool(outcome.error or any(r.state for r in outcome.value or ()))


def _elsewhere(app: App, work: Work, order: Order, code: Code, manner: Manner) -> int:
    """Copy the work to another host, and go on there; where that fails the run is as it was."""
    (host,), (worker,) = work.hosts, work.workers
    moved = Moved(app, work)
    order = moved.one(worker, host, order)
    try:
        begun = begin(app, host, order, code)
    except (Interrupted, LostConnection) as error:
        if error.where != host.name:
            moved.give_back()
        raise  # else the run may have been started
    except BaseException:
        moved.give_back()
        raise
    return tell(app, begun, manner, work.lines(begun.launched))
