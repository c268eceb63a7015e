"""Following a log on real shells: every byte once, in order; it ends with the run and leaves nothing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, NotPermitted, Unreachable
from orchestrator.logs import session as sessions
from orchestrator.logs.follow import Following
from orchestrator.logs.session import Position, Start
from tests.unit.here import Here, HereStream, machine_of
from tests.until import until

BUSYBOX_TOOLS = ("awk", "cat", "date", "find", "head", "sh", "sleep", "stat", "tail", "true", "wc")


@pytest.fixture(params=["dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    made = machine_of(request.param, tmp_path, BUSYBOX_TOOLS)
    if request.param == "busybox":
        (tmp_path / "tools" / "flock").symlink_to(shutil.which("flock") or "")
    return made


class Worker:
    """A worker's folder as a supervisor keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "training.log"
        folder.mkdir(parents=True)
        self.held = (folder / "lock").open("w")
        fcntl.flock(self.held, fcntl.LOCK_EX)
        self.state()

    def state(self, **fields: object) -> None:
        part = self.folder / "state.json.part"
        part.write_text(json.dumps({"state": "running", **fields}) + "\n")
        part.rename(self.folder / "state.json")

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as out:
            out.write(data)

    def end(self) -> None:
        self.state(ended=1.5)
        self.held.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path / "it's a run" / "gpu01")
    yield made
    made.held.close()
    until(lambda: not readers(made.log), "the end of all that read the log")


def readers(log: Path) -> list[str]:
    """The processes that have a log on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += [process.name] * (os.fsencode(log) in (process / "cmdline").read_bytes().split(b"\0"))
    return found


def never() -> Here:
    raise AssertionError("there was no need to connect again")


def follow(machine: Here, worker: Worker, **how: object) -> Following:
    return Following(machine, how.pop("reconnect", never), str(worker.folder), **how)  # type: ignore[arg-type]


def collected(following: Following) -> bytes:
    return b"".join(piece.data for piece in following.pieces())


def left_over(worker: Worker) -> list[str]:
    """Return the command lines of processes that still have to do with the log."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if int(place.parent.name) != os.getpid() and str(worker.folder.parent.parent) in words:
            found.append(words)
    return found


def test_a_log_that_is_complete_is_delivered_whole(machine: Here, worker: Worker) -> None:
    log = os.urandom(5_000_000)
    worker.write(log)
    worker.end()
    assert collected(follow(machine, worker)) == log
    assert collected(follow(machine, worker, position=Position("", 4_999_990))) == log[-10:]
    until(lambda: not left_over(worker))


def test_an_empty_log_ends(machine: Here, worker: Worker) -> None:
    worker.write(b"")
    worker.end()
    assert collected(follow(machine, worker)) == b""


def test_a_log_is_followed_as_it_grows_and_ends_with_its_run(machine: Here, worker: Worker) -> None:
    """It isn't there at first; its last bytes are written in the moment of the end."""

    def train() -> None:
        time.sleep(0.3)
        for number in range(200):
            worker.write(b"%d\n" % number * 50)
            time.sleep(0.003)
        worker.write(b"last words without a line end")
        worker.end()

    thread = threading.Thread(target=train)
    thread.start()
    said = collected(follow(machine, worker))
    thread.join()
    assert said == worker.log.read_bytes()


def test_lines_come_at_once(worker: Worker, tmp_path: Path) -> None:
    worker.write(b"begin\n")
    late = []
    pieces = follow(Here(tmp_path, "dash"), worker).pieces()
    while next(pieces).data != b"begin\n":
        pass
    time.sleep(0.3)  # until tail watches
    for _ in range(20):
        began = time.monotonic()
        worker.write(b"x\n")
        assert next(pieces).data == b"x\n"
        late.append(time.monotonic() - began)
        time.sleep(0.02)
    pieces.close()
    assert sorted(late)[10] < 0.2  # one that looks once a second takes 0.5


def test_leaving_leaves_no_process(machine: Here, worker: Worker) -> None:
    worker.write(b"begin\n")
    pieces = follow(machine, worker).pieces()
    first = next(pieces)
    assert (first.offset, first.data, first.fresh) == (0, b"", False)
    assert next(pieces).data == b"begin\n"
    assert left_over(worker)
    pieces.close()
    until(lambda: not left_over(worker))


def test_leaving_while_there_is_no_log_leaves_no_process(machine: Here, worker: Worker) -> None:
    following = follow(machine, worker)
    stream = sessions.Session(following.directory, Position(), None, True).open(machine)
    until(lambda: bool(left_over(worker)))
    stream.close()
    until(lambda: not left_over(worker))


def test_a_supervisor_that_is_gone_ends_it(machine: Here, worker: Worker) -> None:
    worker.write(b"x")
    worker.held.close()  # the lock is free, and nothing says how it ended
    assert collected(follow(machine, worker)) == b"x"


def test_the_lock_is_not_touched_before_the_supervisor_has_it(machine: Here, worker: Worker) -> None:
    """A shared lock at the wrong moment would make the launch fail."""
    (worker.folder / "state.json").unlink()
    worker.held.close()
    (worker.folder / "worker.json").write_text("{}")
    worker.write(b"x")
    said: list[bytes] = []
    thread = threading.Thread(target=lambda: said.append(collected(follow(machine, worker))))
    thread.start()
    thread.join(3)
    assert thread.is_alive()
    then = time.time() - 120
    os.utime(worker.folder / "worker.json", (then, then))  # it never came
    thread.join(10)
    assert said == [b"x"]


def test_the_last_lines(machine: Here, worker: Worker) -> None:
    worker.write(b"one\ntwo\nthree\nfour")
    for lines, wanted in ((2, b"three\nfour"), (0, b""), (9, b"one\ntwo\nthree\nfour")):
        pieces = list(follow(machine, worker, start=Start(lines), live=False).pieces())
        assert b"".join(p.data for p in pieces) == wanted
        assert pieces[0].offset == len(b"one\ntwo\nthree\nfour") - len(wanted)


def test_who_leaves_as_soon_as_it_begins_leaves_nothing(machine: Here, worker: Worker) -> None:
    """The reader may only just have been forked: it is looked for at the end of each test."""
    worker.write(b"x")
    for _ in range(40):
        assert collected(follow(machine, worker, start=Start(0), live=False)) == b""


def test_a_log_as_it_is_now(machine: Here, worker: Worker) -> None:
    worker.write(b"x" * 100_000)
    stop = threading.Event()

    def grow() -> None:
        while not stop.wait(0.001):
            worker.write(b"y" * 1000)

    thread = threading.Thread(target=grow)
    thread.start()
    said = collected(follow(machine, worker, live=False))
    stop.set()
    thread.join()
    log = worker.log.read_bytes()
    assert len(log) >= len(said) >= 100_000
    assert log.startswith(said)


def test_a_login_shell_s_noise_is_no_log(
    machine: Here, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.write(b"log\n")
    worker.end()
    real = HereStream.__init__
    monkeypatch.setattr(
        HereStream, "__init__", lambda self, shell, text, env: real(self, shell, "echo Welcome;" + text, env)
    )
    assert collected(follow(machine, worker)) == b"log\n"


@pytest.mark.parametrize("how", ["truncated", "replaced"])
def test_a_new_file_is_noticed(machine: Here, worker: Worker, how: str) -> None:
    worker.write(b"old " * 1000)
    pieces = follow(machine, worker).pieces()
    assert b"".join(next(pieces).data for _ in range(2)) == b"old " * 1000
    if how == "truncated":
        os.truncate(worker.log, 0)
    else:
        worker.log.rename(worker.folder / "training.log.1")
    worker.write(b"new")
    said = b""
    for piece in pieces:
        said = b"" if piece.fresh else said
        assert not piece.fresh or piece.offset == 0
        said += piece.data
        if said == b"new" and how:
            worker.end()
            how = ""
    assert said == b"new"


def test_a_log_one_may_not_read_is_said(machine: Here, worker: Worker) -> None:
    worker.log.mkdir()  # root may read any file, but no folder
    with pytest.raises(HostError, match=r"here: the log can't be read: it is not a file"):
        collected(follow(machine, worker))


def test_a_log_that_was_removed_is_said(machine: Here, worker: Worker) -> None:
    worker.end()
    with pytest.raises(HostError, match="here: the log can't be read: somebody removed it"):
        collected(follow(machine, worker))


def test_a_run_that_is_gone_is_said(machine: Here, worker: Worker) -> None:
    shutil.rmtree(worker.folder)
    with pytest.raises(HostError, match="here: the log can't be read: the run is gone"):
        collected(follow(machine, worker))


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


SEVEN_LINES = b"".join(b"line %d\n" % number for number in range(7))


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [(60, SEVEN_LINES), (10, b"line 3\nline 4\nline 5\nline 6\n"), (1, b"line 6\n"), (0, b"")],
)
def test_what_was_written_since(machine: Here, worker: Worker, minutes: int, shown: bytes) -> None:
    """By notes of 30, 12, 8 and 2 minutes ago; the one of 12 fell into the middle of a line."""
    worker.write(SEVEN_LINES)
    now = int(time.time())
    notes = [(30, 0), (12, 24), (8, 35), (2, 42)]
    (worker.folder / "sizes").write_text("".join(f"{now - m * 60} {size}\n" for m, size in notes))
    os.utime(worker.log, (now - 30, now - 30))
    heard: list[str] = []
    how = follow(machine, worker, start=Start(since=minutes * 60), live=False, told=heard.append)
    assert collected(how) == shown
    assert not heard


def test_what_was_written_since_where_nothing_was_noted(machine: Here, worker: Worker) -> None:
    worker.write(SEVEN_LINES)
    heard: list[str] = []
    how = follow(machine, worker, start=Start(since=60), live=False, told=heard.append)
    assert collected(how) == SEVEN_LINES
    assert heard == ["here: nothing there says when its log was written, so all of it is shown"]


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
