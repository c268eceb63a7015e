"""Digests that are remembered: unchanged files are not read again, and no change goes unseen."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestrator.run.code import digests
from orchestrator.run.code.bundle import Changed, collect
from tests.unit.projects import OPENSSH, cache, paths, top, write_all

__all__ = ["cache", "top"]  # fixtures


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count files as old enough to be remembered."""
    monkeypatch.setattr(digests, "_FRESH", -60.0)


def test_unchanged_files_are_not_read_again(
    top: Path, cache: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(top, {"a": "1", "key": OPENSSH})
    first = collect(top, cache=cache)
    monkeypatch.setattr(digests, "_read", None)
    again = collect(top, cache=cache)
    assert (again, paths(again)) == (first, ["a"])


def test_a_file_that_may_change_unseen_is_not_remembered(
    top: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(top, {"a": "1"})
    collect(top, cache=cache)
    assert not (cache / "digests").exists()
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 60)
    collect(top, cache=cache)
    assert (cache / "digests").exists()


def test_a_change_under_the_same_size_and_time_is_seen(top: Path, cache: Path, settled: None) -> None:
    write_all(top, {"a": "1"})
    os.utime(top / "a", (1000, 1000))
    first = collect(top, cache=cache).digest
    write_all(top, {"a": "2"})
    os.utime(top / "a", (1000, 1000))
    assert collect(top, cache=cache).digest != first


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"a": 5}', b'{"a": []}', b"\xff"])
def test_a_damaged_cache_is_no_cache(top: Path, cache: Path, settled: None, damage: bytes) -> None:
    write_all(top, {"a": "1"})
    first = collect(top, cache=cache).digest
    for file in (cache / "digests").iterdir():
        file.write_bytes(damage)
    assert collect(top, cache=cache).digest == first


def test_a_cache_that_can_t_be_written_is_no_cache(top: Path) -> None:
    write_all(top, {"a": "1"})
    assert collect(top, cache=Path("/dev/null/x")).count == 1


def test_a_file_that_never_holds_still_is_named(
    top: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(top, {"train.log": "1"})
    real = os.fstat
    ticks = iter(range(100))

    def moving(handle: int) -> os.stat_result:
        (top / "train.log").write_text("x" * next(ticks))
        return real(handle)

    monkeypatch.setattr(os, "fstat", moving)
    with pytest.raises(Changed, match=r"train.log changed while it was read. .* /train.log"):
        collect(top, cache=cache)
