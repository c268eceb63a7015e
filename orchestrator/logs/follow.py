"""Following a log on a host by byte offset, across every cut of the connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from orchestrator.errors import LostConnection
from orchestrator.hosts.base import Machine
from orchestrator.hosts.line import DELAYS, FRUITLESS, connected_again
from orchestrator.logs.session import Piece, Position, Session, Start


@dataclass
class Following:
    """How to follow one worker's log. `told` hears what a person should know, a line each.

    `directory` is the worker's folder on the host. `start` is where to begin instead of at `position`.
    Without `live` the log as it is now is all. `patience`: seconds a host may stay away. One that cuts
    line after line before anything comes is given up without `live`, else tried on ever more seldom.
    The machine given stays the caller's; those made by `reconnect` are closed here.
    """

    machine: Machine
    reconnect: Callable[[], Machine]
    directory: str
    position: Position = field(default_factory=Position)
    start: Start | None = None
    live: bool = True
    told: Callable[[str], None] = lambda line: None
    patience: float = float("inf")
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._fruitless = 0  # lines in a row that were cut before anything came

    def pieces(self) -> Generator[Piece, None, None]:
        """Yield the log until its run has ended and all of it was delivered; `position` is kept current.

        Close it to stop earlier: nothing is left on the host.
        Raises LostConnection when the host stays away for longer than `patience` or, without `live`, cuts
        line after line; HostError when the log can't be read, NotPermitted when the host refuses us now.
        """
        given = self.machine
        complete = False
        try:
            while not complete:
                began = time.monotonic()
                self._fruitless += 1
                try:
                    complete = yield from self._once()
                except LostConnection:
                    if time.monotonic() - began >= DELAYS[-1]:
                        self._fruitless = 0
                    if self._fruitless >= FRUITLESS and not self.live:
                        raise
                    self._connect_again(given)
        finally:
            if self.machine is not given:
                self.machine.close()

    def _once(self) -> Generator[Piece, None, bool]:
        """Follow over the present connection; return whether the log is complete, else it starts anew."""
        session = Session(self.directory, self.position, self.start, self.live, self.told)
        with session.open(self.machine) as stream:
            for piece in session.pieces(stream):
                self.position, self.start = session.position, None
                if piece.fresh:
                    self.told(f"{self.machine.host.name}: the log was truncated or replaced, now the new one")
                if piece.data and self._fruitless:
                    self._came(piece.offset)
                yield piece
        return session.complete

    def _came(self, offset: int) -> None:
        """Note that a line brings something; where nothing was said of it any more, that is said."""
        if self._fruitless > FRUITLESS:
            self.told(f"{self.machine.host.name}: going on at byte {offset}")
        self._fruitless = 0

    def _connect_again(self, given: Machine) -> None:
        host, cuts = self.machine.host.name, self._fruitless
        if cuts < FRUITLESS:
            self.told(f"{host}: connection lost, connecting again")
        elif cuts % FRUITLESS == 0 and (cuts // FRUITLESS).bit_count() == 1:  # 5, 10, 20, 40 and so on
            self.told(f"{host}: {cuts} lines in a row were cut before anything came, trying on")
        if self.machine is not given:
            self.machine.close()
        self.machine = connected_again(host, self.reconnect, self.patience, self.sleep, self.told, cuts)
        if cuts < FRUITLESS:
            self.told(f"{host}: connected again, going on at byte {self.position.offset}")
