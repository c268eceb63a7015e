"""The logs of a run's workers as one flow of pieces; where there are several, each is read in a thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.places import PATIENCE
from orchestrator.errors import FAILED, OK, Interrupted, LostConnection, OrchError

if TYPE_CHECKING:
    from orchestrator.cli.runs import Worker
    from orchestrator.hosts.base import Machine
    from orchestrator.logs.follow import Following
    from orchestrator.logs.session import Piece, Position, Start

    _Ends = queue.SimpleQueue[tuple[Worker, Exception | None]]


_STUCK = 1.0
"""Seconds to wait, when all is left, for a piece that is being taken: nobody may be reading what is shown."""


_ASKED_EVERY = 5.0
"""Seconds between two looks at whether a run is over without a host that is away."""

_TICK = 0.2
"""Seconds after which a wait begins anew: Ctrl-C that came to another thread is taken then."""


class Flow:
    """Follows several logs. A log that can't be followed is told, and the others go on.

    Each begins at `start`, or where `positions` has its host. Without `live` it is the logs as they are now.
    """

    def __init__(
        self,
        app: App,
        workers: Sequence[Worker],
        *,
        live: bool = True,
        start: Start | None = None,
        positions: Mapping[str, Position] | None = None,
    ) -> None:
        self._app, self._workers, self._live = app, workers, live
        self._start, self._positions = start, positions or {}
        self._failures: list[OrchError] = []
        self._away: set[str] = set()
        self._turn, self._left = threading.Lock(), threading.Event()

    @property
    def exit_code(self) -> int:
        """0 where all logs came whole, else what says why not."""
        if not self._failures:
            return OK
        return self._failures[0].exit_code if len(self._workers) == 1 else FAILED

    def give(self, take: Callable[[str, Piece], None]) -> None:
        """Hand each host and piece to `take` as they come, one at a time, until all logs have ended.

        After that `take` is not called again, whatever ended it. While it does not return nothing more is
        read: memory does not grow where nobody reads what is shown.
        """
        if len(self._workers) > 1:
            return self._together(take)
        try:
            self._read(self._workers[0], take)
        except OrchError as error:
            self._fail(error)

    def _fail(self, error: OrchError) -> None:
        self._failures.append(error)
        self._app.say(f"orch: {error}")

    def _read(self, worker: Worker, take: Callable[[str, Piece], None]) -> None:
        for piece in self._following(worker).pieces():
            take(worker.record.host, piece)

    def _together(self, take: Callable[[str, Piece], None]) -> None:
        ends: _Ends = queue.SimpleQueue()

        def in_turn(host: str, piece: Piece) -> None:
            with self._turn:
                if not self._left.is_set():
                    take(host, piece)

        def read(worker: Worker) -> None:
            try:
                self._read(worker, in_turn)
                ends.put((worker, None))
            except Exception as error:  # told in the caller's thread
                ends.put((worker, error))

        for worker in self._workers:
            threading.Thread(target=read, args=(worker,), daemon=True).start()
        try:
            self._await(ends)
        finally:
            self._left.set()
            if self._turn.acquire(timeout=_STUCK):
                self._turn.release()

    def _await(self, ends: _Ends) -> None:
        """Wait until all logs have ended, or the run has ended without the hosts that are still away."""
        pending, asked = {w.record.host: w for w in self._workers}, time.monotonic()
        while pending:
            if found := _next(ends):
                pending.pop(found[0].record.host)
                self._heed(found[1])
            elif pending.keys() <= self._away and time.monotonic() > asked + _ASKED_EVERY:
                asked = time.monotonic()
                if self._is_over_without(pending):
                    for host in pending:
                        why = "the run ended without it: its log is not whole here"
                        self._fail(LostConnection(why, where=host))
                    return

    def _is_over_without(self, pending: Mapping[str, Worker]) -> bool:
        """Whether the other workers have recorded that those hosts were lost."""
        from orchestrator.cli.runs import read_records
        from orchestrator.run.first import lost_hosts

        others = [w for w in self._workers if w.record.host not in pending]
        if not self._live or not others:
            return False
        run = others[0].record.spec.run
        outcomes = self._app.each([w.host for w in others], lambda m: read_records(m, run=run))
        return pending.keys() <= lost_hosts([r for o in outcomes for r in o.value or ()])

    def _connect_again(self, worker: Worker) -> Machine:
        self._away.add(worker.record.host)
        machine = self._app.connect(worker.host)
        self._away.discard(worker.record.host)
        return machine

    def _heed(self, end: Exception | None) -> None:
        if isinstance(end, OrchError):
            self._fail(end)
        elif end:
            raise end

    def _following(self, worker: Worker) -> Following:
        from orchestrator.logs.follow import Following
        from orchestrator.logs.session import Position

        return Following(
            self._app.machine(worker.host),
            lambda: self._connect_again(worker),
            worker.record.directory,
            position=self._positions.get(worker.record.host, Position()),
            start=self._start,
            live=self._live,
            patience=float("inf") if self._live else PATIENCE,
            told=self._told,
            sleep=self._sleep,
        )

    def _told(self, line: str) -> None:
        if not self._left.is_set():
            self._app.say(f"orch: {line}")

    def _sleep(self, seconds: float) -> None:
        """Wait to try again. Raises Interrupted when all is left: who is away is tried no more then."""
        if self._left.wait(seconds):
            raise Interrupted("nobody reads it any more")


def _next(ends: _Ends) -> tuple[Worker, Exception | None] | None:
    try:
        return ends.get(timeout=_TICK)
    except queue.Empty:
        return None
