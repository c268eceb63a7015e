"""Finding the runs that a word means, for the verbs that take RUN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.errors import OrchError, UsageError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host
    from orchestrator.run.find import Wanted
    from orchestrator.run.record import Record
    from orchestrator.run.spec import RunSpec


@dataclass(frozen=True)
class Worker:
    """A worker of a run that was found, and the host it was found on."""

    host: Host
    record: Record


@dataclass(frozen=True)
class FoundRun:
    """A run that was found: what was asked, and its workers in the order of ranks."""

    spec: RunSpec
    workers: tuple[Worker, ...]
    failures: tuple[tuple[str, OrchError], ...] = ()  # of hosts that were asked and gave no answer

    @property
    def id(self) -> str:
        """The run's id."""
        return self.spec.run

    @property
    def absent(self) -> tuple[str, ...]:
        """The hosts it was launched on of which no record was read."""
        there = {worker.record.host for worker in self.workers}
        return tuple(host for host in self.spec.hosts if host not in there)

    @property
    def called(self) -> str:
        """What a person may call it on a command line: its name, else its id."""
        return self.spec.name or self.spec.run


def read_records(
    machine: Machine,
    *,
    person: str = "*",
    run: str = "*",
    since: int | None = None,
    tail: int = 0,
) -> tuple[Record, ...]:
    """Read a host's records in one exec; see run.record.query for the filters."""
    from fnmatch import fnmatchcase

    from orchestrator.container.identity import slug
    from orchestrator.facts.question import ask
    from orchestrator.hosts.command import Command
    from orchestrator.run.record import RUNS, query

    settings = machine.host.settings
    engine = Command(settings.container_command).shell() if settings.in_container else ""
    values = query(settings.root, person=person, run=run, since=since, tail=tail, engine=engine)
    found = ask(machine, RUNS, values=values).of(RUNS)
    name = machine.host.name
    return tuple(
        r
        for r in found
        # Two names of one machine see each other's workers: each tells of its own.
        if (name not in r.spec.hosts or r.host == name)
        # What lives without a record is told of by processes, which no pattern has chosen.
        and (not r.gone or (person in ("*", slug(r.spec.person)) and fnmatchcase(r.spec.run, run)))
    )


def find_run(
    app: App, word: str | None, hosts: Sequence[str] = (), *, tail: int = 0, alive: bool = False
) -> FoundRun:
    """Find the run that `word` means; the caller's newest when there is none.

    With `alive` a name means the newest that lives, where any does.
    Where this machine remembers the run's hosts only they are asked, so that a dead host elsewhere costs
    nothing. Raises UsageError when there is no such run, a host's error when one that may have it is silent.
    """
    from orchestrator.run.find import Wanted

    wanted = Wanted(word or "latest")
    chosen = app.looked_at(hosts)
    known, exact = ((), wanted) if hosts else _remembered(app, wanted)
    by_name = alive and not wanted.by_id  # then what lives goes before what is remembered
    found = (known and not by_name and _look(app, exact, known, tail)) or _look(
        app, wanted, chosen, tail, alive
    )
    found = found or (known and by_name and _look(app, exact, known, tail)) or None
    if found:
        return found
    if known:
        where = ", ".join(h.name for h in known)
        hint = f"The same from its start: orch rerun {exact.word}"
        raise OrchError(f"there is no record of run {exact.word} any more", where=where, hint=hint)
    what = f"no run '{word}'" if word else "no run"
    raise UsageError(f"{what} on {', '.join(h.name for h in chosen)}", hint="See: orch ps -a")


def find_or_say(app: App, word: str | None, hosts: Sequence[str] = ()) -> FoundRun:
    """Find a run as `find_run` does; the error for a silent host says what can be done."""
    from orchestrator.errors import LostConnection, Unreachable

    try:
        return find_run(app, word, hosts)
    except (Unreachable, LostConnection) as error:
        anew = rerun_elsewhere(app, word, error.where)
        begin_anew = f". To begin anew: {anew}" if anew else ""
        hint = error.hint or f"Its runs may go on: nobody knows until it answers{begin_anew}"
        raise type(error)(error.message, where=error.where, hint=hint) from error


def _look(app: App, wanted: Wanted, hosts: Sequence[Host], tail: int, alive: bool = False) -> FoundRun | None:
    """Look for a run on hosts. Raises a host's error when it isn't found and may be where nobody answers."""
    outcomes = app.each(hosts, lambda machine: _matching(machine, wanted, tail))
    found = _choose(wanted, outcomes, alive)
    for outcome in outcomes:
        if outcome.error and not found:
            raise outcome.error
    return found


def _matching(machine: Machine, wanted: Wanted, tail: int) -> tuple[Record, ...]:
    from orchestrator.container.identity import person_of

    person = "*" if wanted.by_id else person_of(machine.host).slug
    records = read_records(machine, person=person, run=wanted.pattern, tail=tail)
    return tuple(r for r in records if wanted.matches(r.spec.run, r.spec.name, service=r.spec.service))


def _choose(wanted: Wanted, outcomes: Sequence[Outcome[tuple[Record, ...]]], alive: bool) -> FoundRun | None:
    from orchestrator.run.find import newest
    from orchestrator.run.status import judge

    rows = [(r.spec.run, r.spec.asked, Worker(o.host, r)) for o in outcomes for r in o.value or ()]
    if alive and not wanted.by_id:
        rows = [row for row in rows if judge(row[2].record).live] or rows
    workers = tuple(sorted(newest(wanted, rows), key=_rank))
    failures = tuple((o.host.name, o.error) for o in outcomes if o.error)
    return FoundRun(workers[0].record.spec, workers, failures) if workers else None


def _rank(worker: Worker) -> int:
    hosts = worker.record.spec.hosts
    return hosts.index(worker.record.host) if worker.record.host in hosts else 0


def _remembered(app: App, wanted: Wanted) -> tuple[tuple[Host, ...], Wanted]:
    """Return the hosts that this machine remembers for a run, and the run's whole id; else no hosts."""
    from orchestrator.container.identity import person_of
    from orchestrator.run import seen
    from orchestrator.run.find import Wanted, newest

    known = {h.name: h for h in app.inventory.hosts}
    memory = [
        s
        for s in seen.recall(seen.file(app.environ))
        if wanted.matches(s.run, s.name, service=s.service)
        and set(s.hosts) <= known.keys()
        and (wanted.by_id or all(person_of(known[h]).name == s.person for h in s.hosts))
    ]
    for match in newest(wanted, [(s.run, -age, s) for age, s in enumerate(memory)]):
        return tuple(known[h] for h in match.hosts), Wanted(match.run)
    return (), wanted


def say_went_on(app: App, found: FoundRun, verb: str) -> None:
    """Say which run took the work of this one over, where one did: what `verb` shows may be there now."""
    for worker in found.workers:
        if by := worker.record.continued_by:
            app.say(f"{worker.host.name}   its work went on in {by}: orch {verb} {by}")


def rerun_elsewhere(app: App, word: str | None, host: str | None) -> str:
    """Return the command that runs it again on another host than `host`; empty where there is no other."""
    others = [h.name for h in app.inventory.hosts if h.name != host]
    return f"orch rerun {word or 'latest'} --hosts {others[0]}" if others else ""


def only_worker(found: FoundRun, *, by_word: bool = False) -> Worker:
    """Return the only worker. Raises UsageError where there are several; `by_word`: without --hosts."""
    if len(found.workers) == 1:
        return found.workers[0]
    names = [worker.record.host for worker in found.workers]
    hint = f"Name one: {found.called}/{names[0]}" if by_word else "Name one with --hosts."
    raise UsageError(f"run {found.id} has workers on {', '.join(names)}", hint=hint)
