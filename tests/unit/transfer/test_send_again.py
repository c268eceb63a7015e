"""A copy to a host that is cut goes on where it was, and what changes meanwhile is never a mixture."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import LostConnection, OrchError
from orchestrator.files.local import local
from orchestrator.files.sending import Sending, Sent
from orchestrator.files.unfinished import token
from orchestrator.hosts.line import Line
from tests.unit.here import Here
from tests.unit.transfer.cutting import Cut, line
from tests.unit.transfer.trees import put, tree

SIZE = 3_000_000


@pytest.fixture
def data(here: Path) -> Path:
    put(here / "d" / "sub" / "data.npz", random.Random(1).randbytes(SIZE)).chmod(0o755)
    put(here / "d" / "note", "small")
    return here / "d"


def send(over: Here | Line, source: Path, told: list[int] | None = None) -> Sent:
    hears = (lambda done: None) if told is None else told.append
    sending = Sending(local(source), "~/there/d", "token", told=hears, large=1_000_000)
    return sending.over(over if isinstance(over, Line) else Line(over))


def cut_once(machine: Here, data: Path, up: int = 2_000_000) -> None:
    with pytest.raises(LostConnection):
        send(Cut(machine, up=up), data)


def test_a_large_file_goes_on_over_the_next_connection(machine: Here, there: Path, data: Path) -> None:
    first, second, said, told = Cut(machine, up=2_000_000), Cut(machine), [], []  # type: ignore[var-annotated]
    sent = send(line(first, second, told=said), data, told)
    assert (sent.into, sent.count, sent.size) == (f"{there}/d", 2, SIZE + 5)
    assert tree(there) == {f"d/{name}": content for name, content in tree(data).items()}
    assert second.went < SIZE - 1_500_000
    assert said == ["here: connection lost, connecting again", "here: connected again, going on"]
    assert told[-1] == SIZE + 5
    got = there / "d" / "sub" / "data.npz"
    assert (int(got.stat().st_mtime), got.stat().st_mode & 0o777) == (1_700_000_000, 0o755)


def test_a_copy_goes_on_when_it_is_called_again(machine: Here, there: Path, data: Path) -> None:
    cut_once(machine, data)
    assert [p.name for p in there.iterdir()] == [".orch-part-token"]
    again = Cut(machine)
    assert send(again, data).count == 2
    assert again.went < SIZE - 1_500_000
    assert tree(there / "d") == tree(data)
    assert [p.name for p in there.iterdir()] == ["d"]


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "at its start": lambda old: b"X" * 1000 + old[1000:],
    "behind what came": lambda old: old[:-1000] + b"X" * 1000,
    "shorter than what came": lambda old: old[:1_500_000],
    "longer": lambda old: old + b"X" * 1000,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_between_two_tries_goes_as_it_is_now(
    machine: Here, there: Path, data: Path, change: str
) -> None:
    cut_once(machine, data)
    file = data / "sub" / "data.npz"
    put(file, CHANGES[change](file.read_bytes()))  # of the same time
    send(machine, data)
    assert tree(there / "d") == tree(data)


def test_what_was_in_the_part_folder_is_proved(machine: Here, there: Path, data: Path) -> None:
    cut_once(machine, data)
    (part,) = there.glob(".orch-part-*/new/sub/data.npz")
    part.write_bytes(bytes(part.stat().st_size))  # as after a crash of the host
    send(machine, data)
    assert tree(there / "d") == tree(data)


def test_a_file_that_changes_while_it_goes_is_sent_anew(machine: Here, there: Path, data: Path) -> None:
    over, file, new = Cut(machine), data / "sub" / "data.npz", random.Random(2).randbytes(SIZE)
    over.met = lambda: put(file, new, 1_600_000_000) if SIZE < 3 * over.went < 2 * SIZE else None
    send(over, data)
    assert tree(there / "d") == tree(data)
    assert (there / "d" / "sub" / "data.npz").read_bytes() == new


def test_a_file_that_changes_all_the_time_is_said(machine: Here, there: Path, data: Path) -> None:
    over, file = Cut(machine), data / "sub" / "data.npz"
    over.met = lambda: os.utime(file)
    with pytest.raises(OrchError, match=r"data.npz changes while it is read. Copy it when it is written."):
        send(over, data)
    assert not (there / "d").exists()


def test_of_small_files_only_those_that_had_not_gone_are_sent_again(
    machine: Here, there: Path, here: Path
) -> None:
    for number in range(40):
        put(here / "d" / f"{number:02}", random.Random(number).randbytes(50_000))
    first, second = Cut(machine, up=1_500_000), Cut(machine)
    send(line(first, second), here / "d")
    assert tree(there / "d") == tree(here / "d")
    assert second.went < 1_000_000


def test_a_copy_is_remembered_until_it_is_done(tmp_path: Path) -> None:
    memory, what = tmp_path / "m", ("gpu01", "a", "b")

    def cut() -> None:
        with token(memory, *what) as first, token(memory, *what) as meanwhile:
            seen.append(first)
            assert meanwhile != first
            raise LostConnection("cut")

    seen: list[str] = []
    with pytest.raises(LostConnection):
        cut()
    with token(memory, *what) as second, token(memory, "gpu02", "a", "b") as other:
        assert second == seen[0] != other
    with token(memory, *what) as third:
        assert third != second
    (tmp_path / "file").touch()
    with token(tmp_path / "file" / "m", "a") as one, token(tmp_path / "file" / "m", "a") as two:
        assert one != two


def test_a_copy_that_nobody_went_on_with_is_forgotten(tmp_path: Path) -> None:
    for name, days in (("old", 9), ("young", 6)):
        (tmp_path / name).write_text("0123456789abcdef")
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
    with token(tmp_path, "gpu01", "/data", "big"):
        assert not (tmp_path / "old").exists()
        assert (tmp_path / "young").exists()
