"""orch resume: on from where a run stopped, with its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.collecting import collected, without
from orchestrator.cli.earlier import AgainCommand, Earlier, argv
from orchestrator.cli.launching import Code, Manner, begin, launch_on, tell
from orchestrator.cli.options import host_options, pass_app
from orchestrator.cli.rerun import compared, one_host, wishes_again
from orchestrator.cli.run_options import Asked, run_options
from orchestrator.cli.runs import FoundRun, Worker, find_run, rerun_elsewhere
from orchestrator.errors import Busy, Interrupted, LostConnection, Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.launch import Launched, Order


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
    the same file, yours is taken and the run's stands beside it. On another host the work is copied there.

    \b
      orch resume nightly
      orch resume nightly --hosts gpu02 -- python3 train.py --epochs=200
    """
    words = argv()
    found = _find(app, word)
    worker = _resumable(found)
    host = one_host(app, hosts, exclude) if hosts else worker.host
    order = _order(app, found, host, words, asked, same_code)
    if same_code:
        code = Earlier(found.spec, found=found).code(app)
    else:
        code, order = _present(app, host, order, asked, max_size)
    if host.name == worker.host.name:
        return launch_on(app, host, order, code, asked.manner, more=_more(found))
    return _elsewhere(app, found, host, order, code, asked.manner)


def _find(app: App, word: str | None) -> FoundRun:
    try:
        return find_run(app, word)
    except Unreachable as error:
        anew = rerun_elsewhere(app, word, error.where)
        begin_anew = f", or start from the beginning elsewhere: {anew}" if anew else ""
        error.hint = f"The run's files are there: try again when it is back{begin_anew}"
        raise


def _resumable(found: FoundRun) -> Worker:
    """Return the worker whose work is taken over. Raises OrchError for a run that can't go on."""
    from orchestrator.container.identity import person_of
    from orchestrator.run.status import judge

    if len(found.workers) > 1:
        raise UsageError(f"run {found.id} had {len(found.workers)} hosts: only a run of one can go on")
    worker = found.workers[0]
    where = worker.host.name
    if judge(worker.record).live or worker.record.lock == "held":
        raise Busy(f"run {found.id} still runs", where=where, hint=f"End it first: orch stop {found.id}")
    if found.spec.person != person_of(worker.host).name:
        hint = f"Start it from the beginning: orch rerun {found.id}"
        raise Refused(
            f"run {found.id} is {found.spec.person}'s, and so are its files", where=where, hint=hint
        )
    return worker


def _order(
    app: App, found: FoundRun, host: Host, words: tuple[str, ...], asked: Asked, same_code: bool
) -> Order:
    """Return the order that takes the work over, with the code that the run had."""
    from orchestrator.run.again import order_again
    from orchestrator.run.resume import taking

    (worker,) = found.workers
    takes = taking(worker.record, _stale(app, worker, asked.naming.again))
    wishes = wishes_again(app, host, found.spec, asked)
    diff = Earlier(found.spec, found=found).diff_of(app) if same_code else ""
    order = order_again(found.spec, host, "resume", wishes, argv=words, cwd=app.cwd, diff=diff)
    place = worker.record.place if host.name == worker.host.name else order.place
    return replace(order, takes=takes, place=place)


def _present(app: App, host: Host, order: Order, asked: Asked, max_size: str) -> tuple[Code, Order]:
    """Return the code of the folder as it is now, and the order with it."""
    from orchestrator.container.identity import identity_of
    from orchestrator.run.order import git_of, is_trainer

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
    spec = replace(order.spec, bundle=bundle.digest, git=git)
    return Code.of(bundle), replace(order, spec=spec, diff=diff)


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


def _elsewhere(app: App, found: FoundRun, host: Host, order: Order, code: Code, manner: Manner) -> int:
    """Copy the work to another host, and go on there; where that fails the run is as it was."""
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.run.code.upload import upload
    from orchestrator.run.resume import claim, copy_work, give_back

    (worker,) = found.workers
    source, target = app.machine(worker.host), app.machine(host)
    if found.spec.bundle != order.spec.bundle:  # it tells the run's files from its code
        upload(target, order.place, Earlier(found.spec, found=found).code(app).whole())
    claimed = claim(source, host.name, worker.record, order)
    try:
        with bytes_sent(f"{host.name}: copying {found.id}", claimed.size) as sent:
            order = copy_work(source, target, claimed, order, told=sent)
        begun = begin(app, host, order, code)
    except (Interrupted, LostConnection) as error:
        if error.where != host.name or not order.takes or not order.takes.staged:
            give_back(source, target, worker.record, order, claimed.staged)
        raise  # else the run may have been started
    except BaseException:
        give_back(source, target, worker.record, order, claimed.staged)
        raise
    return tell(app, begun, manner, _more(found)(begun.launched))


def _more(found: FoundRun) -> Callable[[Launched], Iterator[str]]:
    (worker,) = found.workers

    def lines(launched: Launched) -> Iterator[str]:
        where = "" if launched.host == worker.host.name else f", copied from {worker.host.name}"
        yield f"work    that of {found.id}{where}"
        for line in launched.laid:
            how, _, path = line.partition(" ")
            if how == "kept":
                yield f"note: kept {path}: the run made it (the folder's is not taken)"
            else:
                yield f"note: {path} is the folder's; the run had changed it, its own is {path}.{found.id}"
        yield from compared(found.spec, launched)

    return lines
