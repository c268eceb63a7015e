"""The answer of a framed script, however it is cut into pieces."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import HostError, LostConnection, NotPermitted
from orchestrator.hosts.answer import Answer
from orchestrator.hosts.command import Frame

FRAME = Frame(b"mark-begin\n", b"\nmark-end ", b"")


def fed(*pieces: bytes, err: bytes = b"mark-begin\n\nmark-end 0\n") -> Answer:
    answer = Answer(FRAME)
    for piece in pieces:
        answer.feed(piece)
    answer.feed_error(err)
    return answer


@given(st.binary(max_size=60), st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=6))
def test_pieces_do_not_matter(noise: bytes, payload: bytes, cuts: list[int]) -> None:
    data = noise + b"mark-begin\n" + payload + b"\nmark-end 17\nlate words"
    points = [0, *sorted(cuts), len(data)]
    answer = fed(*(data[a:b] for a, b in itertools.pairwise(points)))
    assert answer.whole
    result = answer.result("x", "gpu01", 0)
    assert (result.status, result.out) == (17, payload)


def test_it_is_not_whole_before_both_ends() -> None:
    answer = Answer(FRAME)
    answer.feed(b"mark-begin\n\nmark-end 1")
    answer.feed_error(b"mark-begin\nwhy\n\nmark-end 1\n")
    assert not answer.whole  # 1, or the first digit of 127
    answer.feed(b"27\n")
    assert answer.whole
    assert answer.result("x", "gpu01", 0).status == 127
    assert answer.result("x", "gpu01", 0).err == b"why\n"


def test_an_end_is_enough_where_stderr_was_lost() -> None:
    answer = fed(b"mark-begin\nhi\n\nmark-end 0\n", err=b"noise\nmark-begin\nhalf a li")
    assert answer.result("x", "gpu01", 0).err == b"half a li"


def test_a_cut_answer_is_a_lost_connection() -> None:
    with pytest.raises(LostConnection, match=r"gpu01: ps: the connection went before the answer was whole"):
        fed(b"mark-begin\nhalf", err=b"").result("ps", "gpu01", 0)
    with pytest.raises(LostConnection, match="before the host said anything"):
        fed(err=b"").result("ps", "gpu01", 0)


def test_an_account_that_runs_nothing_is_told_in_its_own_words() -> None:
    with pytest.raises(NotPermitted, match=r"it said: This account is currently not available\."):
        fed(b"\nThis account is currently not available.\n", err=b"").result("ps", "gpu01", 0)


def test_a_fault_in_a_script_is_not_taken_for_a_closed_account() -> None:
    with pytest.raises(HostError, match="ps: sh: 3: Syntax error") as caught:
        fed(err=b"sh: 3: Syntax error: end of file unexpected\n").result("ps", "gpu01", 0)
    assert caught.value.exit_code == 1


def test_memory_is_linear_in_the_answer() -> None:
    size, piece = 8 << 20, b"x" * 4096
    tracemalloc.start()
    answer = fed(b"mark-begin\n", *([piece] * (size // len(piece))), b"\nmark-end 0\n")
    assert len(answer.result("x", "gpu01", 0).out) == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * size
