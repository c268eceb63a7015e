"""The logs of a run's workers as one flow of pieces; where there are several, each is read in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.errors import FAILED, OK, OrchError

if TYPE_CHECKING:
    from orchestrator.cli.runs import Worker
    from orchestrator.logs.follow import Following
    from orchestrator.logs.session import Piece, Position, Start

_AHEAD = 64
"""Pieces read ahead of what is shown: memory does not grow with the log."""


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
        self._queue: queue.Queue[tuple[str, Piece | Exception | None]] = queue.Queue(_AHEAD)

    @property
    def exit_code(self) -> int:
        """0 where all logs came whole, else what says why not."""
        if not self._failures:
            return OK
        return self._failures[0].exit_code if len(self._workers) == 1 else FAILED

    def pieces(self) -> Iterator[tuple[str, Piece]]:
        """Yield host and piece as they come."""
        return self._alone(*self._workers) if len(self._workers) == 1 else self._together()

    def _alone(self, worker: Worker) -> Iterator[tuple[str, Piece]]:
        try:
            for piece in self._following(worker).pieces():
                yield worker.record.host, piece
        except OrchError as error:
            self._fail(error)

    def _fail(self, error: OrchError) -> None:
        self._failures.append(error)
        self._app.say(f"orch: {error}")

    def _together(self) -> Iterator[tuple[str, Piece]]:
        for worker in self._workers:
            threading.Thread(target=self._read, args=(worker,), daemon=True).start()
        left = len(self._workers)
        while left:
            host, piece = self._queue.get()
            if piece is None:
                left -= 1
            elif isinstance(piece, OrchError):
                left -= 1
                self._fail(piece)
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield host, piece

    def _following(self, worker: Worker) -> Following:
        from orchestrator.logs.follow import Following
        from orchestrator.logs.session import Position

        return Following(
            self._app.machine(worker.host),
            lambda: self._app.connect(worker.host),
            worker.record.directory,
            position=self._positions.get(worker.record.host, Position()),
            start=self._start,
            live=self._live,
            told=lambda line: self._app.say(f"orch: {line}"),
        )

    def _read(self, worker: Worker) -> None:
        host = worker.record.host
        try:
            for piece in self._following(worker).pieces():
                self._queue.put((host, piece))
            self._queue.put((host, None))
        except Exception as error:  # told in the caller's thread
            self._queue.put((host, error))
