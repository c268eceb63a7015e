"""RUN on a command line."""

from __future__ import annotations

import fnmatch

import pytest

from orchestrator.errors import UsageError
from orchestrator.run.find import Wanted, newest
from orchestrator.run.ids import ID, check_name, new_id

OLD, NEW, OTHER = "20261129-0214-nightly-02be", "20261130-0214-nightly-7f3a", "20261130-0300-run-1111"
RUNS = [(OLD, "nightly"), (NEW, "nightly"), (OTHER, None)]


def meant(word: str) -> list[str]:
    wanted = Wanted(word)
    fitting = [
        (r, 0.0, r) for r, name in RUNS if fnmatch.fnmatch(r, wanted.pattern) and wanted.matches(r, name)
    ]
    return newest(wanted, fitting)


@pytest.mark.parametrize(
    ("word", "run"),
    [
        (NEW, NEW),
        (OLD, OLD),
        ("20261129", OLD),
        ("20261130-03", OTHER),
        ("nightly", NEW),
        ("latest", OTHER),
        ("run", OTHER),
    ],
)
def test_a_word_means_one_run(word: str, run: str) -> None:
    assert meant(word) == [run]


def test_what_is_not_there() -> None:
    assert meant("weekly") == []
    assert meant("20261128") == []


def test_a_prefix_of_several_names_them() -> None:
    with pytest.raises(UsageError, match=f"'20261130' could be any of: {OTHER}, {NEW}"):
        meant("20261130")


def test_a_name_that_is_part_of_another_is_not_meant() -> None:
    wanted = Wanted("night")
    assert not wanted.matches(NEW, "nightly")
    assert not fnmatch.fnmatch(NEW, wanted.pattern)


def test_all_workers_of_the_newest_run_are_returned() -> None:
    assert newest(Wanted("nightly"), [(NEW, 2, "a"), (OLD, 1, "b"), (NEW, 2, "c")]) == ["a", "c"]


def test_of_two_runs_of_one_minute_the_later_is_the_newest() -> None:
    assert newest(Wanted("nightly"), [(NEW, 5.1, "first"), (NEW[:-4] + "0001", 5.2, "later")]) == ["later"]


def test_ids_have_their_shape_and_their_time_in_utc() -> None:
    assert new_id("nightly", now=1_796_004_840).startswith("20261130-0214-nightly-")
    assert ID.match(new_id("nightly"))
    assert ID.match(new_id(None))
    assert ID.match(new_id("Ünïcode name.with_dots"))
    assert new_id("x", now=0) != new_id("x", now=0)


@pytest.mark.parametrize("name", ["latest", "a b", "", "-x", "20261130-0214", "a/b", "x" * 65, "a\n"])
def test_names_that_would_be_taken_for_something_else(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


@pytest.mark.parametrize("name", ["nightly", "lr-0.1", "A_b", "2026"])
def test_good_names(name: str) -> None:
    assert check_name(name) == name
