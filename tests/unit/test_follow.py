"""Following a log on real shells: every byte once, in order; it ends with the run and leaves nothing."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from orchestrator.errors import HostError
from orchestrator.logs import session as sessions
from orchestrator.logs.session import Position, Start
from tests.unit.followed import Worker, collected, follow, left_over, machine, worker
from tests.unit.here import Here, HereStream
from tests.until import until

__all__ = ["machine", "worker"]  # fixtures


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


def test_a_supervisor_that_comes_back_with_its_container_is_waited_for(machine: Here, worker: Worker) -> None:
    (worker.folder.parent / "spec.json").write_text('{"restarts": 1, "retry_on": []}\n')
    (worker.folder / "launch.json").touch()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    worker.state(boot_id=boot, container="c1", heartbeat=time.time())
    worker.write(b"x")
    worker.held.close()

    def come_back() -> None:
        time.sleep(4)  # it looks every 2 s
        worker.write(b"y")
        worker.end()

    thread = threading.Thread(target=come_back)
    thread.start()
    said = collected(follow(machine, worker))
    thread.join()
    assert said == b"xy"


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
