"""A fetch that is cut goes on where it was, and what changed meanwhile is never a mixture."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import LostConnection, OrchError
from orchestrator.files import fetching, part
from orchestrator.files.bringing import fetch
from orchestrator.files.fetching import named, plan
from orchestrator.files.part import Part
from orchestrator.hosts.line import Line
from tests.unit.here import Here
from tests.unit.transfer.cutting import Cut, line
from tests.unit.transfer.trees import put, tree

SIZE = 3_000_000


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LARGE", 1_000_000)


@pytest.fixture
def model(there: Path) -> Path:
    return put(there / "d" / "model.h5", random.Random(1).randbytes(SIZE))


def bring(over: Here | Line, folder: Path, to: Path, told: list[int] | None = None) -> list[str]:
    way = over if isinstance(over, Line) else Line(over)
    source = named(way.machine, str(folder), to)
    chosen = plan(source.wanted, overwrite=False)
    hears = (lambda done: None) if told is None else told.append
    return [*chosen.kept, *fetch(way, source, chosen.take, to, told=hears)]


def cut_once(machine: Here, model: Path, to: Path, at: int = 2_000_000) -> None:
    with pytest.raises(LostConnection):
        bring(Cut(machine, down=at), model.parent, to)


def test_a_large_file_goes_on_over_the_next_connection(machine: Here, model: Path, here: Path) -> None:
    first, second, said = Cut(machine, down=2_000_000), Cut(machine), []
    told: list[int] = []
    assert bring(line(first, second, told=said), model.parent, here / "d", told) == []
    assert tree(here / "d") == {"model.h5": model.read_bytes()}
    assert second.came < SIZE - 2_000_000 + 100
    assert said == ["here: connection lost, connecting again", "here: connected again, going on"]
    assert told[-1] == SIZE


def test_a_large_file_goes_on_when_it_is_called_again(machine: Here, model: Path, here: Path) -> None:
    cut_once(machine, model, here / "d")
    assert tree(here / "d").keys() == {p.name for p in (here / "d").glob(".orch-part-*")}
    source = named(machine, str(model.parent), here / "d")
    chosen = plan(source.wanted, overwrite=False)
    begun = chosen.here(source)
    assert 1_900_000 < begun < 2_000_000
    assert chosen.room(source) == SIZE - begun
    again = Cut(machine)
    assert bring(again, model.parent, here / "d") == []
    assert again.came < SIZE - begun + 100
    assert tree(here / "d") == {"model.h5": model.read_bytes()}


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "at its start": lambda old: b"X" * 1000 + old[1000:],
    "behind what came": lambda old: old[:-1000] + b"X" * 1000,
    "shorter than what came": lambda old: old[:1_500_000],
    "longer": lambda old: old + b"X" * 1000,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_between_two_tries_comes_as_it_is_now(
    machine: Here, model: Path, here: Path, change: str
) -> None:
    cut_once(machine, model, here / "d")
    put(model, CHANGES[change](model.read_bytes()))  # of the same time
    assert bring(machine, model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": model.read_bytes()}


def meanwhile(machine: Here, what: Callable[[], object], times: int = 1) -> Cut:
    """A line over which something happens on the host, as often, while the file comes."""
    cut, left = Cut(machine), [what] * times
    cut.met = lambda: left.pop()() if left and cut.came > 200_000 else None
    return cut


@pytest.mark.parametrize("just_now", [False, True])
def test_a_file_that_is_written_over_meanwhile_is_taken_anew(
    machine: Here, model: Path, here: Path, just_now: bool
) -> None:
    new = random.Random(2).randbytes(SIZE)
    mtime = int(time.time()) if just_now else 1_600_000_000
    assert bring(meanwhile(machine, lambda: put(model, new, mtime)), model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": new}


def test_a_file_that_is_replaced_meanwhile_stays_what_it_was(machine: Here, model: Path, here: Path) -> None:
    old = model.read_bytes()
    new = put(model.parent.parent / "new", random.Random(2).randbytes(SIZE), 1_600_000_000)
    assert bring(meanwhile(machine, lambda: new.replace(model)), model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": old}


def test_a_file_that_becomes_shorter_meanwhile_is_taken_anew(machine: Here, model: Path, here: Path) -> None:
    assert bring(meanwhile(machine, lambda: os.truncate(model, 250_000)), model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": model.read_bytes()}


def test_a_file_that_grows_meanwhile_comes_as_it_was_and_that_is_said(
    machine: Here, model: Path, here: Path
) -> None:
    old, said = model.read_bytes(), []

    def grow() -> None:
        with model.open("ab") as file:
            file.write(b"more")

    assert bring(line(meanwhile(machine, grow), told=said), model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": old}
    assert said == ["model.h5 grew meanwhile: here are its first 3.0 MB"]


def test_a_file_that_changes_all_the_time_does_not_come(machine: Here, model: Path, here: Path) -> None:
    def change() -> None:
        model.write_bytes(random.randbytes(SIZE))
        over.met, before = (lambda: None), over.came
        over.met = lambda: change() if over.came > before + SIZE else None

    over = meanwhile(machine, change)
    assert bring(over, model.parent, here / "d") == [
        "not fetched: model.h5 (it changed each time that it was read)"
    ]
    assert tree(here / "d") == {}


def test_of_small_files_only_those_that_had_not_come_are_sent_again(
    machine: Here, there: Path, here: Path
) -> None:
    for number in range(40):
        put(there / "d" / f"{number:02}", random.Random(number).randbytes(50_000))
    first, second = Cut(machine, down=1_500_000), Cut(machine)
    assert bring(line(first, second), there / "d", here / "d") == []
    assert tree(here / "d") == tree(there / "d")
    assert second.came < 600_000
    third = Cut(machine)
    assert bring(third, there / "d", here / "d") == []
    assert third.came == 0


def test_a_small_file_that_changes_meanwhile_comes_whole(machine: Here, there: Path, here: Path) -> None:
    a = put(there / "d" / "a", b"1" * 1000)
    put(there / "d" / "b", b"2" * 500_000)
    over = Cut(machine)
    over.met = lambda: a.write_bytes(b"3" * 1000) if 502_000 < over.came < 513_000 else None  # both were read
    assert bring(over, there / "d", here / "d") == []
    assert tree(here / "d") == tree(there / "d") != {}
    assert (here / "d" / "a").read_bytes() == b"3" * 1000


def test_two_fetches_of_one_file_at_once_don_t_meet(machine: Here, model: Path, here: Path) -> None:
    cut_once(machine, model, here / "d")
    with Part(here / "d" / "model.h5") as other:
        other.begin(0)
        other.write(b"x" * 5000)
        assert bring(machine, model.parent, here / "d") == []
        assert (here / "d" / "model.h5").read_bytes() == model.read_bytes()
    assert (here / "d" / "model.h5").read_bytes() == model.read_bytes()


KILLED = """
import os, signal, sys
from pathlib import Path
from orchestrator.files.part import Part
part = Part(Path(sys.argv[1]))
part.write(b"x" * 5000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def parts(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob(".orch-part-*"))


def test_what_one_of_two_fetches_left_when_it_was_killed_is_cleared_away(
    machine: Here, model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = here / "d" / "model.h5"
    cut_once(machine, model, here / "d")
    with Part(to):
        words = [sys.executable, "-c", KILLED, str(to)]
        killed = subprocess.run(words, check=False, cwd=Path(__file__).parents[3])
        assert killed.returncode == -signal.SIGKILL
        (left,) = set(parts(here / "d")) - {part.part_of(to).name}
        with Part(to) as alive:
            alive.write(b"y")
            assert bring(machine, model.parent, here / "d") == []
            assert {left, alive.path.name} < set(parts(here / "d")), "younger than a day"
            monkeypatch.setattr(part, "_OLD", -1.0)
            part.clear_away(here / "d")
            assert parts(here / "d") == sorted([part.part_of(to).name, alive.path.name])
            alive.drop()
    to.unlink()
    (here / "d" / left).write_bytes(b"x")
    assert bring(machine, model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": model.read_bytes()}


def test_a_link_that_was_half_made_is_made_anew(machine: Here, there: Path, here: Path) -> None:
    put(there / "d/a", "1")
    (there / "d/link").symlink_to("a")
    (here / "d").mkdir()
    mine = here / "d" / f"{part.part_of(here / 'd/link').name}-link"
    mine.symlink_to("elsewhere")
    (here / "d" / ".orch-part-other-link").symlink_to("elsewhere")
    assert bring(machine, there / "d", here / "d") == []
    assert (here / "d/link").readlink() == Path("a")
    assert parts(here / "d") == [".orch-part-other-link"], "another's, younger than a day"


def test_links_that_nobody_makes_any_more_are_cleared_away(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ".orch-part-other-link").symlink_to("elsewhere")
    part.clear_away(here)
    assert parts(here) == [".orch-part-other-link"]
    monkeypatch.setattr(part, "_OLD", -1.0)
    part.clear_away(here)
    assert parts(here) == []


def test_a_file_is_written_whole_by_several_at_once(here: Path) -> None:
    texts = [letter * 300_000 for letter in "abcd"]
    threads = [threading.Thread(target=part.write_whole, args=(here / "f", text, 0o600)) for text in texts]
    with Part(here / "f") as killed:  # what one left that was killed
        killed.write(b"x" * 400_000)
    assert len(parts(here)) == 1
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (here / "f").read_text() in texts
    assert parts(here) == []


def test_what_could_not_be_written_whole_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Part, "place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        part.write_whole(here / "f", "text")
    assert list(here.iterdir()) == []


def test_a_sparse_file_stays_one(machine: Here, there: Path, here: Path) -> None:
    big = put(there / "d" / "big", b"begins")
    os.truncate(big, 50_000_000)
    source = named(machine, str(big), here / "big")
    assert plan(source.wanted, overwrite=False).room(source) < 1_000_000
    cut_once(machine, big, here / "d", at=20_000_000)
    assert bring(machine, big.parent, here / "d") == []
    got = here / "d" / "big"
    assert got.stat().st_size == 50_000_000
    assert got.stat().st_blocks * 512 < 1_000_000
    assert got.read_bytes() == big.read_bytes()


def test_a_host_that_cuts_before_anything_comes_is_given_up(machine: Here, model: Path, here: Path) -> None:
    cuts = [Cut(machine, down=0) for _ in range(20)]
    with pytest.raises(LostConnection):
        bring(line(*cuts), model.parent, here / "d")


def test_a_part_that_is_no_file_is_out_of_the_way(machine: Here, model: Path, here: Path) -> None:
    cut_once(machine, model, here / "d")
    (part,) = (here / "d").glob(".orch-part-*")
    part.unlink()
    os.mkfifo(part)
    assert bring(machine, model.parent, here / "d") == []
    assert tree(here / "d") == {"model.h5": model.read_bytes()}


def test_a_folder_that_can_t_be_written_is_one_line(machine: Here, model: Path, here: Path) -> None:
    (here / "d").write_text("a file")
    with pytest.raises(OrchError, match=r"/d/model.h5 can't be written: (not a directory|file exists)"):
        bring(machine, model.parent, here / "d")
