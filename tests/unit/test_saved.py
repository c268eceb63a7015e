"""Logs as files here: byte-equal, gone on with, and never another's."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from orchestrator.errors import Busy, UsageError
from orchestrator.logs.follow import Following
from orchestrator.logs.saved import Saved, held
from orchestrator.run.code.ignore import FETCHED
from tests.unit.followed import Worker, never
from tests.unit.here import Here

RUN = "20261130-0214-nightly-7f3a"


class Keeping:
    """A worker's log, saved again and again into one folder."""

    def __init__(self, folder: Path) -> None:
        self.home, self.out = folder, folder / "out"
        self.worker = Worker(folder / "run" / "gpu01")
        self.said: list[str] = []

    def save(self, most: int = 1 << 60) -> Saved:
        """Save what is there, in a call that is killed after so many bytes."""
        saved = Saved(self.out, "gpu01", RUN)
        following = Following(
            Here(self.home, "dash"),
            never,
            str(self.worker.folder),
            position=saved.position,
            live=False,
            told=self.said.append,
        )
        with held(self.out):
            for piece in following.pieces():
                saved.write(piece)
                if saved.position.offset >= most:
                    break
            saved.close()
        return saved


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    made = Keeping(tmp_path)
    made.worker.held.close()
    return made


def test_a_file_is_gone_on_with_where_it_stopped(keeping: Keeping) -> None:
    log = os.urandom(1_000_000)
    keeping.worker.write(log)
    assert keeping.save(most=100_000).position.offset < len(log)
    keeping.worker.write(b"more")
    inode = (keeping.out / "gpu01.log").stat().st_ino
    keeping.save()
    assert (keeping.out / "gpu01.log").read_bytes() == log + b"more"
    assert (keeping.out / "gpu01.log").stat().st_ino == inode
    assert not keeping.said


def test_what_is_here_is_not_sent_again(keeping: Keeping) -> None:
    keeping.worker.write(b"x" * 100_000)
    keeping.save()
    saved = Saved(keeping.out, "gpu01", RUN)
    assert saved.position.offset == 100_000
    assert saved.position.before == b"x" * 4096


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("how", ["truncated", "replaced", "truncated and longer"])
def test_another_log_of_that_name_on_the_host_is_another_file_here(
    keeping: Keeping, how: str, size: int
) -> None:
    old = b"o" * size
    keeping.worker.write(old)
    keeping.save()
    if how == "replaced":
        keeping.worker.log.rename(keeping.worker.folder / "kept.log")
    else:
        os.truncate(keeping.worker.log, 0)
    new = b"n" * (size * 2 if how == "truncated and longer" else size // 2)
    keeping.worker.write(new)
    assert keeping.save().path == keeping.out / "gpu01.2.log"
    assert keeping.said == ["here: the log was truncated or replaced, now the new one"]
    keeping.worker.write(b"more")
    keeping.save()
    assert (keeping.out / "gpu01.log").read_bytes() == old
    assert (keeping.out / "gpu01.2.log").read_bytes() == new + b"more"
    assert len(keeping.said) == 1


def test_a_file_of_somebody_s_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gpu01.log").write_text("mine")
    with pytest.raises(UsageError, match=r"gpu01.log is there, and not written by orch tail. Name another"):
        Saved(tmp_path, "gpu01", RUN)
    assert (tmp_path / "gpu01.log").read_text() == "mine"


def test_a_folder_with_another_run_s_logs_is_refused(keeping: Keeping) -> None:
    keeping.worker.write(b"x")
    keeping.save()
    with pytest.raises(UsageError, match=f"gpu01.log is the log of run {RUN}"):
        Saved(keeping.out, "gpu01", "20261130-0215-other-0000")


@pytest.mark.parametrize("note", ["", "[]", "{}", "\0"])
def test_a_note_that_makes_no_sense_is_said(tmp_path: Path, note: str) -> None:
    (tmp_path / ".gpu01.log.json").write_text(note)
    with pytest.raises(UsageError, match=r"\.gpu01\.log\.json is no note of orch tail"):
        Saved(tmp_path, "gpu01", RUN)


def _hold(folder: Path) -> str:
    try:
        with held(folder):
            return "held"
    except Busy as error:
        return str(error)


def test_one_call_writes_at_a_time(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with held(tmp_path / "out"):
            said = pool.apply(_hold, (tmp_path / "out",))
        assert said == f"{tmp_path / 'out'}: another orch tail writes there"
        assert pool.apply(_hold, (tmp_path / "out",)) == "held"


def test_a_folder_that_it_makes_is_no_code_of_the_project(tmp_path: Path) -> None:
    with held(tmp_path / "logs"):
        pass
    assert (tmp_path / "logs" / FETCHED).exists()
    (tmp_path / "mine").mkdir()
    with held(tmp_path / "mine"):
        pass
    assert not (tmp_path / "mine" / FETCHED).exists()
