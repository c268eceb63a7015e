"""A way to a host that comes back after a cut."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.errors import HostError, LostConnection, NotPermitted
from orchestrator.hosts.base import Machine
from orchestrator.units import duration

T = TypeVar("T")

DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between tries to connect again; the last one repeats."""

REFUSALS = 3
"""Times in a row that a host which let us in before may refuse: its home may be away for a moment."""

SAID_AFTER = 60.0
"""Seconds that a host is away before that is said again; then after twice as many, and so on."""

FRUITLESS = 5
"""Cuts in a row between which nothing came: then it is no matter of the line."""


@dataclass
class Line:
    """A connection, and how to get another one where it was cut (None: not at all).

    `told` hears what a person should know, a line each. `patience`: seconds a host may stay away.
    The machine given stays the caller's; those made by `reconnect` are closed here.
    """

    machine: Machine
    reconnect: Callable[[], Machine] | None = None
    told: Callable[[str], None] = lambda line: None
    patience: float = float("inf")
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._given = self.machine

    @property
    def host(self) -> str:
        """The host's name."""
        return self.machine.host.name

    def keep(self, work: Callable[[Machine], T], progress: Callable[[], int]) -> T:
        """Do work that goes on from where it stopped, over as many connections as it takes.

        `progress` is any number that changes while work is done. Raises LostConnection when the host stays
        away, or cuts the line again and again before anything comes.
        """
        fruitless = 0
        while True:
            before = progress()
            try:
                return work(self.machine)
            except LostConnection:
                fruitless = fruitless + 1 if progress() == before else 0
                if self.reconnect is None or fruitless >= FRUITLESS:
                    raise
                self.told(f"{self.host}: connection lost, connecting again")
                self.close()
                self.machine = connected_again(
                    self.host, self.reconnect, self.patience, self.sleep, self.told, fruitless
                )
                self.told(f"{self.host}: connected again, going on")

    def close(self) -> None:
        """Close the connection, unless it is the caller's."""
        if self.machine is not self._given:
            self.machine.close()


def connected_again(
    host: str,
    reconnect: Callable[[], Machine],
    patience: float,
    sleep: Callable[[float], None],
    told: Callable[[str], None],
    fruitless: int = 0,
) -> Machine:
    """Connect again, however long it takes. Raises LostConnection after `patience` seconds, NotPermitted.

    `fruitless`: so many connections before were cut before anything came: the delays go on growing.
    `told` hears why the host is still away, at times that grow.
    """
    began, refused, said_after = time.monotonic(), 0, SAID_AFTER
    for delay in _delays(max(0, fruitless - 1)):
        sleep(delay)
        try:
            return reconnect()
        except HostError as error:
            refused = refused + 1 if isinstance(error, NotPermitted) else 0
            if refused == REFUSALS:
                raise
            away = time.monotonic() - began
            if away > patience:
                raise LostConnection(f"away for more than {patience:.0f} s", where=host) from error
            if away >= said_after:
                told(f"{host}: away for {duration(away)} ({error.message}), trying on")
                while said_after <= away:
                    said_after *= 2
    raise AssertionError("the delays have no end")


def _delays(first: int) -> Iterator[float]:
    """Yield the waits, each shortened at random, so that many hosts are not asked in one moment."""
    yield from (delay * random.uniform(0.5, 1.0) for delay in DELAYS[first:])
    while True:
        yield DELAYS[-1] * random.uniform(0.5, 1.0)
