"""One stream to several at once: read once, little in memory, and none of them harms the others."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import LostConnection
from orchestrator.hosts.base import Stream

ROOM = 16 << 20
"""Bytes that wait for one that takes them more slowly than they come."""

PATIENCE = 20.0
"""Seconds, all together, that the others wait for one alone before they go on without it."""

SPOIL = 1 << 20
"""Bytes of what is no archive, of which no engine takes anything (spoil.sh.j2)."""

_LOOK = 0.2  # seconds between two looks at who is waited for


@dataclass
class Lane:
    """The way to one of them. `lost`: what became of it; `left`: the others went on without it."""

    stream: Stream
    lost: LostConnection | None = None
    left: bool = False
    waited: float = 0.0
    _pieces: deque[bytes] = field(default_factory=deque)
    _held: int = 0
    _over: bool = False

    @property
    def live(self) -> bool:
        """Whether it still takes what comes."""
        return self.lost is None and not self.left

    @property
    def full(self) -> bool:
        """Whether nothing more fits for now."""
        return self.live and self._held >= ROOM

    @property
    def idle(self) -> bool:
        """Whether it could take much more than it gets."""
        return self._held <= ROOM // 2


class Spread:
    """Writes what is read to all lanes, each by a thread of its own."""

    def __init__(self, lanes: Sequence[Lane], patience: float = PATIENCE) -> None:
        self._lanes, self._patience = lanes, patience
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._write, args=(lane,), daemon=True) for lane in lanes]

    def run(self, source: Stream, told: Callable[[int], None]) -> None:
        """Pass on the source to its end, or until nobody takes it any more; `told` hears the bytes read.

        Each lane's stdin is then ended. Raises LostConnection when the source is lost: what the lanes got
        then ends in what is no part of an archive.
        """
        for thread in self._threads:
            thread.start()
        try:
            self._pass_on(source, told)
        except LostConnection:
            self._give(b"x" * SPOIL)
            self._end()
            raise
        self._end()

    def _pass_on(self, source: Stream, told: Callable[[int], None]) -> None:
        total = 0
        while self._live and (piece := source.read(1 << 18)):
            total += len(piece)
            self._give(piece)
            told(total)

    @property
    def _live(self) -> list[Lane]:
        return [lane for lane in self._lanes if lane.live]

    def _give(self, piece: bytes) -> None:
        with self._changed:
            while any(lane.full for lane in self._live):
                began = time.monotonic()
                self._changed.wait(_LOOK)
                self._blame(time.monotonic() - began)
            for lane in self._live:
                lane._pieces.append(piece)
                lane._held += len(piece)
            self._changed.notify_all()

    def _blame(self, seconds: float) -> None:
        """Count the time that all others wait for one; leave it behind when it is too much."""
        live = self._live
        slow = [lane for lane in live if lane.full]
        if len(live) < 2 or len(slow) != 1 or not all(lane.idle for lane in live if lane is not slow[0]):
            return
        slow[0].waited += seconds
        if slow[0].waited > self._patience:
            slow[0].left = True
            slow[0].stream.close()

    def _write(self, lane: Lane) -> None:
        try:
            while (piece := self._next(lane)) is not None:
                lane.stream.write(piece)
                with self._changed:
                    lane._held -= len(piece)
                    self._changed.notify_all()
            lane.stream.close_stdin()
        except LostConnection as error:
            with self._changed:
                lane.lost = None if lane.left else error
                lane._pieces.clear()
                self._changed.notify_all()
        except OSError as error:  # closed under it, as it was left behind
            lane.lost = None if lane.left else LostConnection(str(error))

    def _next(self, lane: Lane) -> bytes | None:
        with self._changed:
            while not lane._pieces and not lane._over and lane.live:
                self._changed.wait()
            return lane._pieces.popleft() if lane._pieces and lane.live else None

    def _end(self) -> None:
        with self._changed:
            for lane in self._lanes:
                lane._over = True
            self._changed.notify_all()
        for lane, thread in zip(self._lanes, self._threads, strict=True):
            if not lane.left:
                thread.join()
