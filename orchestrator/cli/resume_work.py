"""The work of a run that goes on: what is said of it, and how it comes to other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.earlier import Earlier
from orchestrator.cli.launching import Code
from orchestrator.cli.rerun import compared
from orchestrator.cli.run_options import Asked
from orchestrator.cli.runs import FoundRun, Worker

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.launch import Launched, Order
    from orchestrator.run.together import Party


@dataclass(frozen=True)
class Work:
    """What is gone on with: the workers of a run by rank, and the host on which each goes on."""

    found: FoundRun
    workers: tuple[Worker, ...]
    hosts: tuple[Host, ...]

    def lines(self, launched: Launched) -> Iterator[str]:
        """Yield what is said of a worker's work when it was launched."""
        names = [host.name for host in self.hosts]
        worker = self.workers[names.index(launched.host)]
        several = len(names) > 1
        moved = launched.host != worker.host.name
        to = f" to {launched.host}" if several else ""
        yield f"work    that of {self.found.id}{f', copied from {worker.host.name}{to}' if moved else ''}"
        for line in launched.laid:
            yield f"note: {f'{launched.host}: ' if several else ''}{_laid(line, self.found.id)}"
        yield from compared(self.found.spec, launched)


def _laid(line: str, run: str) -> str:
    how, _, path = line.partition(" ")
    if how == "kept":
        return f"kept {path}: the run made it (the folder's is not taken)"
    return f"{path} is the folder's; the run had changed it, its own is {path}.{run}"


@dataclass
class Moved:
    """Brings work to other hosts; what was claimed for it can be given back."""

    app: App
    work: Work
    _claims: list[tuple[Worker, Host, Order, str]] = field(default_factory=list)

    def one(self, worker: Worker, host: Host, order: Order) -> Order:
        """Copy a worker's work to another host; return the order that takes it over there.

        Where that fails the run is as it was.
        """
        from orchestrator.cli.progress import bytes_sent
        from orchestrator.run.code.upload import upload
        from orchestrator.run.resume import claim, copy_work

        found, app = self.work.found, self.app
        source, target = app.machine(worker.host), app.machine(host)
        if found.spec.bundle != order.spec.bundle:  # it tells the run's files from its code
            upload(target, order.place, Earlier(found.spec, found=found).code(app).whole())
        claimed = claim(source, host.name, worker.record, order)
        self._claims.append((worker, host, order, claimed.staged))
        try:
            with bytes_sent(f"{host.name}: copying {found.id}", claimed.size) as sent:
                return copy_work(source, target, claimed, order, told=sent)
        except BaseException:
            self.give_back()
            raise

    def all(self, party: Party) -> Party:
        """Copy the work of all workers that change hosts; return the party that takes it over.

        Where one of them fails the run is as it was.
        """
        orders = []
        try:
            for worker, host, order in zip(self.work.workers, party.hosts, party.orders, strict=True):
                same = worker.host.name == host.name
                orders.append(order if same else self.one(worker, host, order))
        except BaseException:
            self.give_back()
            raise
        return replace(party, orders=tuple(orders))

    def give_back(self) -> None:
        """Take all claims back: the run did not go on. Never raises a host's error."""
        from orchestrator.run.resume import give_back

        for worker, host, order, staged in self._claims:
            give_back(self.app.machine(worker.host), self.app.machine(host), worker.record, order, staged)
        self._claims.clear()


def resume_together(app: App, work: Work, orders: Sequence[Order], code: Code, asked: Asked) -> int:
    """Go on with a run on several hosts, on all of them or on none."""
    from orchestrator.cli.together import begin_together, tell_together
    from orchestrator.run.together import party

    moved = Moved(app, work)
    begun = begin_together(
        app,
        party(work.hosts, orders),
        code,
        asked.manner,
        skip_checks=asked.skip_checks,
        prepared=moved.all,
        undo=moved.give_back,
    )
    return tell_together(app, begun, asked.manner, work.lines)
