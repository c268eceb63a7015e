"""Many hosts at once: bounded, every outcome kept, in the order of the inventory."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from orchestrator.errors import HostError, OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.connect import connect as _connect
from orchestrator.hosts.platform import room_for
from orchestrator.inventory import Host

T = TypeVar("T")

PARALLEL = 32
"""Hosts that are worked on at the same time."""


# Seconds between two calls of `meanwhile`. Without it nobody waits for longer either: where the system gives
# Ctrl-C to another thread, only the end of a wait lets this one take it.
_TICK = 0.1


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of one host: a value, or the error that says why not."""

    host: Host
    value: T | None = None
    error: OrchError | None = None


class _Open:
    """The machines that are open now, so that Ctrl-C can close them all."""

    def __init__(self) -> None:
        self._machines: set[Machine] = set()
        self._lock = threading.Lock()
        self.stopped = False

    def add(self, machine: Machine) -> None:
        with self._lock:
            self._machines.add(machine)

    def close(self, machine: Machine) -> None:
        with self._lock:
            self._machines.discard(machine)
        machine.close()

    def stop(self) -> None:
        self.stopped = True
        with self._lock:
            machines, self._machines = self._machines, set()
        for machine in machines:
            machine.close()


def each(
    hosts: Sequence[Host],
    work: Callable[[Machine], T],
    *,
    connect: Callable[[Host], Machine] = _connect,
    parallel: int = PARALLEL,
    told: Callable[[Outcome[T]], None] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[Outcome[T]]:
    """Connect to every host and do `work` there; return every outcome in the order of `hosts`.

    An OrchError is the host's outcome; any other exception is a fault in orch and is raised after all
    have ended. `told` is called with each outcome as it comes, and `meanwhile` again and again, in this
    thread. Ctrl-C, and what these two raise, closes all connections and is passed on at once: the threads
    are daemons and nobody waits for them.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Outcome[T] | BaseException]] = queue.SimpleQueue()
    machines = _Open()
    for number in range(len(hosts)):
        todo.put(number)

    def worker() -> None:
        while not machines.stopped:
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            done.put((number, _one(hosts[number], work, connect, machines)))

    room_for(len(hosts))
    try:
        for _ in range(min(max(parallel, 1), len(hosts))):
            threading.Thread(target=worker, daemon=True).start()
        found = _gather(len(hosts), done, told, meanwhile)
    except BaseException:
        machines.stop()
        raise
    return [found[number] for number in range(len(hosts))]


def _one(
    host: Host, work: Callable[[Machine], T], connect: Callable[[Host], Machine], machines: _Open
) -> Outcome[T] | BaseException:
    try:
        machine = connect(host)
        machines.add(machine)
        try:
            return Outcome(host, value=work(machine))
        finally:
            machines.close(machine)
    except OrchError as error:
        return Outcome(host, error=error)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return error
        hint = "Raise the limit, ulimit -n 4096, or name fewer hosts at once"
        full = HostError("this machine has too many open files", where=host.name, hint=hint)
        return Outcome(host, error=full)
    except BaseException as error:  # handed to the caller's thread, which raises it
        return error


def _next(
    done: queue.SimpleQueue[tuple[int, Outcome[T] | BaseException]], meanwhile: Callable[[], None] | None
) -> tuple[int, Outcome[T] | BaseException]:
    while True:
        try:
            return done.get(timeout=_TICK)
        except queue.Empty:
            if meanwhile:
                meanwhile()


def _gather(
    count: int,
    done: queue.SimpleQueue[tuple[int, Outcome[T] | BaseException]],
    told: Callable[[Outcome[T]], None] | None,
    meanwhile: Callable[[], None] | None,
) -> dict[int, Outcome[T]]:
    found: dict[int, Outcome[T]] = {}
    faults: list[tuple[int, BaseException]] = []
    for _ in range(count):
        number, outcome = _next(done, meanwhile)
        if isinstance(outcome, BaseException):
            faults.append((number, outcome))
            continue
        found[number] = outcome
        if told:
            told(outcome)
    if faults:
        raise min(faults, key=lambda f: f[0])[1]
    return found
