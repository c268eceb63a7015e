"""Several workers stop and save after the very same step, without a word at each step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from orchestrator.trainer.beat import LONGEST, SAVE, Beat, Wishes
from orchestrator.trainer.stopping import Stop


class Room:
    """Two workers that take turns: each puts down its numbers, and both take up the sums."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meetings: list[int] = []
        self.stops = [Stop(), Stop()]
        self.beats = [Beat(self.stops[rank], self.worker(rank), lambda: self.now) for rank in (0, 1)]  # type: ignore[arg-type]
        self.told: list[list[float]] = []

    def worker(self, rank: int) -> SimpleNamespace:
        place = SimpleNamespace(chief=rank == 0)
        return SimpleNamespace(alone=False, place=place, totals=lambda *mine: self.totals(rank, mine))

    def totals(self, rank: int, mine: tuple[float, ...]) -> list[float]:
        """The first pass collects what all say, the second answers."""
        if len(self.told) <= rank:
            self.told.append(list(mine))
        return [sum(column) for column in zip(*self.told, strict=True)]

    def step(self, seconds: float) -> Wishes:
        """Both do a step; what they then do must be the same."""
        self.now += seconds
        self.told = []
        states = [(beat.met, beat.since, beat.interval) for beat in self.beats]
        for beat in self.beats:  # what each would say
            beat.step()
        met = len(self.told)
        assert met in (0, 2), "one came to a meeting alone"
        self.meetings.append(met)
        if not met:
            return Wishes()
        for beat, state in zip(self.beats, states, strict=True):
            beat.met, beat.since, beat.interval = state
        first, second = (beat.step() for beat in self.beats)
        assert first == second
        return first


def test_one_worker_answers_at_each_step() -> None:
    stop = Stop()
    now = [0.0]
    beat = Beat(stop, SimpleNamespace(alone=True), lambda: now[0])  # type: ignore[arg-type]
    assert beat.step() == Wishes()
    now[0] = SAVE
    assert beat.step() == Wishes(save=True)
    beat.has_saved()
    stop.asked = True
    assert beat.step() == Wishes(stop=True)


@pytest.mark.parametrize("asked", [0, 1])
def test_whoever_is_asked_both_stop(asked: int) -> None:
    room = Room()
    for _ in range(30):
        assert not room.step(0.1).stop
    room.stops[asked].asked = True
    wishes = [room.step(0.1).stop for _ in range(12)]
    assert True in wishes


def test_they_meet_about_once_a_second() -> None:
    room = Room()
    for _ in range(200):
        room.step(0.02)
    assert 3 <= sum(room.meetings) / 2 <= 7
    room = Room()
    for _ in range(2 * LONGEST + 2):
        room.step(1e-9)
    assert sum(room.meetings) / 2 == 3


def test_steps_of_another_kind_are_looked_at_first() -> None:
    room = Room()
    for _ in range(10):
        room.step(0.001)
    for beat in room.beats:
        beat.begin()
    room.meetings.clear()
    for _ in range(3):
        room.step(5.0)
    assert room.meetings == [2, 2, 2]


def test_the_chief_s_clock_says_when_to_save() -> None:
    room = Room()
    room.step(1.0)
    assert room.step(SAVE).save
    for beat in room.beats:
        beat.has_saved()
    assert not room.step(1.0).save
