"""A log that is followed over connections that break, fall silent or stay away: no byte is lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from orchestrator.errors import HostError, LostConnection, NotPermitted, Unreachable
from orchestrator.hosts import line
from orchestrator.logs import session as sessions
from orchestrator.logs.session import Position
from tests.unit.followed import Worker, collected, follow, left_over, machine, worker
from tests.unit.here import Here, HereStream
from tests.until import until

__all__ = ["machine", "worker"]  # fixtures


class Cutting(HereStream):
    """A connection that goes after some bytes, anywhere."""

    cuts: Iterator[int] = iter(())

    def __init__(self, shell: tuple[str, ...], text: str, env: dict[str, str]) -> None:
        super().__init__(shell, text, env)
        self.left = next(self.cuts, 1 << 60)

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        if self.left <= 0:
            raise LostConnection("cut")
        data = super().read(min(size, self.left), timeout)
        self.left -= len(data or b"")
        return data


def test_no_byte_is_lost_or_doubled_across_cuts(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.here.HereStream", Cutting)
    monkeypatch.setattr(Cutting, "cuts", iter([10, 60, 90, 200, 5000, 65536, 70, 300_000, 100_000]))
    heard: list[str] = []
    waited: list[float] = []
    tries = iter([Unreachable("no"), HostError("banner"), None])

    def reconnect() -> Here:
        problem = next(tries, None)
        if problem:
            raise problem
        return machine

    def train() -> None:
        for number in range(300):
            worker.write(b"%d\r\n" % number * 400)
            time.sleep(0.001)
        worker.end()

    thread = threading.Thread(target=train)
    thread.start()
    following = follow(machine, worker, reconnect=reconnect, told=heard.append, sleep=waited.append)
    said = bytearray()
    for piece in following.pieces():
        assert piece.offset == len(said)
        said += piece.data
    thread.join()
    assert bytes(said) == worker.log.read_bytes()
    assert len(heard) == 18
    assert heard[0] == "here: connection lost, connecting again"
    assert heard[1] == "here: connected again, going on at byte 0"
    assert len(waited) == 11
    assert waited[0] < waited[1] < waited[2] < 2.1
    until(lambda: not left_over(worker))


def test_a_host_that_stays_away_is_given_up_in_the_end(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Here):
        def stream(self, *args: object, **kwargs: object) -> HereStream:
            raise HostError("no answer within 10 s", where="here")

    def reconnect() -> Here:
        raise Unreachable("timed out", where="here")

    following = follow(Away(worker.folder), worker, reconnect=reconnect, patience=-1, sleep=lambda s: None)
    with pytest.raises(LostConnection, match="here: away for more than"):
        collected(following)

    refusals: list[int] = []

    def refused() -> Here:
        refusals.append(1)
        raise NotPermitted("host key changed", where="here")

    with pytest.raises(NotPermitted):
        collected(follow(Away(worker.folder), worker, reconnect=refused, sleep=lambda s: None))
    assert len(refusals) == 3


def test_a_host_that_cuts_every_line_at_once_is_tried_ever_more_seldom(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said now and then, and never given up: its run may live. The first line of all brings something."""
    worker.write(b"x" * 1000)
    worker.end()
    monkeypatch.setattr("tests.unit.here.HereStream", Cutting)
    monkeypatch.setattr(Cutting, "cuts", iter([300] + [0] * 22))
    heard: list[str] = []
    waited: list[float] = []
    how = follow(machine, worker, reconnect=lambda: machine, told=heard.append, sleep=waited.append)
    assert collected(how) == b"x" * 1000
    again = ["connection lost, connecting again", "connected again, going on at byte {}"] * 5
    many = [f"{count} lines in a row were cut before anything came, trying on" for count in (5, 10, 20)]
    at = heard[1].rpartition(" ")[2]
    assert 0 < int(at) < 1000
    assert heard == [f"here: {said.format(at)}" for said in [*again, *many, "going on at byte {}"]]
    assert len(waited) == 23
    assert waited[0] <= 0.5
    assert all(7.5 <= seconds <= 15 for seconds in waited[6:])


def test_the_log_as_it_is_now_is_given_up_where_every_line_is_cut_at_once(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.write(b"x")
    monkeypatch.setattr("tests.unit.here.HereStream", Cutting)
    monkeypatch.setattr(Cutting, "cuts", iter([0] * 5))
    waited: list[float] = []
    how = follow(machine, worker, reconnect=lambda: machine, live=False, sleep=waited.append)
    with pytest.raises(LostConnection):
        collected(how)
    assert len(waited) == 4


def test_why_a_host_is_away_is_said_at_times_that_grow(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away for twenty minutes, of which each try takes ten seconds."""
    now = [0.0]
    monkeypatch.setattr(line, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("tests.unit.here.HereStream", Cutting)
    monkeypatch.setattr(Cutting, "cuts", iter([0]))
    worker.write(b"x")
    worker.end()
    heard: list[str] = []

    def reconnect() -> Here:
        now[0] += 10
        if now[0] < 1200:
            raise Unreachable("connection timed out after 10 s", where="here")
        return machine

    how = follow(machine, worker, reconnect=reconnect, told=heard.append, sleep=lambda seconds: None)
    assert collected(how) == b"x"
    why = "(connection timed out after 10 s), trying on"
    assert heard[1:-1] == [f"here: away for {minutes} min {why}" for minutes in (1, 2, 4, 8, 16)]


def test_a_connection_that_fell_silent_counts_as_lost(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.write(b"x")
    monkeypatch.setattr(sessions, "SILENCE", 0.3)
    heard: list[str] = []

    def reconnect() -> Here:
        worker.end()
        return machine

    following = follow(machine, worker, reconnect=reconnect, told=heard.append, sleep=lambda s: None)
    assert collected(following) == b"x"
    assert heard[0] == "here: connection lost, connecting again"


class Early:
    """A stream on which the end was said before the beginning of the log was read."""

    def __init__(self, mark: str) -> None:
        self.out, self.err = [f"{mark} at 1 0 5\nhello".encode()], f"{mark} ended 5\n".encode()

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        return self.out.pop() if self.out else None

    def read_error(self) -> bytes:
        said, self.err = self.err, b""
        return said


def test_an_end_that_is_heard_before_the_beginning_is_not_forgotten() -> None:
    session = sessions.Session("/x", Position(), None, True)
    assert b"".join(p.data for p in session.pieces(Early(session.mark))) == b"hello"  # type: ignore[arg-type]
    assert session.complete


class Slow(HereStream):
    """A stream that gives the log's first bytes, and the rest when the host knows that it was moved away."""

    given, heard, taken = 0, b"", 0

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        if 200 < self.given < 100_000:  # more than the line before the log
            until(lambda: b" replaced 1000000\n" in self.hear(), "a word of the log that was moved away")
        data = super().read(size, timeout)
        self.given += len(data or b"")
        return data

    def hear(self) -> bytes:
        self.heard += super().read_error()
        return self.heard

    def read_error(self) -> bytes:
        said = self.hear()[self.taken :]
        self.taken += len(said)
        return said


def test_of_a_log_that_is_moved_away_all_comes_that_is_there(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.here.HereStream", Slow)
    old = os.urandom(1_000_000)
    worker.write(old)
    said, fresh = b"", []
    for piece in follow(machine, worker).pieces():
        if piece.data and not said:
            worker.log.rename(worker.folder / "kept.log")
            worker.write(b"new")
        if piece.fresh:
            fresh.append(len(said))
            worker.end()
        said += piece.data
    assert said == old + b"new"
    assert fresh == [len(old)]


def test_a_log_that_is_another_after_a_cut_is_noticed_by_its_bytes(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file, and longer than before."""
    monkeypatch.setattr("tests.unit.here.HereStream", Cutting)
    monkeypatch.setattr(Cutting, "cuts", iter([60_000]))
    worker.write(b"old " * 25_000)

    def reconnect() -> Here:
        os.truncate(worker.log, 0)
        worker.write(b"new " * 50_000)
        worker.end()
        return machine

    pieces = list(follow(machine, worker, reconnect=reconnect, sleep=lambda s: None).pieces())
    fresh = [number for number, piece in enumerate(pieces) if piece.fresh]
    assert len(fresh) == 1
    assert b"".join(p.data for p in pieces[fresh[0] :]) == b"new " * 50_000
    assert (b"old " * 25_000).startswith(b"".join(p.data for p in pieces[: fresh[0]]))
