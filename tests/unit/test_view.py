"""What a person sees of a log: the same however its bytes were cut, in any mode."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.logs import view as views
from orchestrator.logs.line import final
from orchestrator.logs.view import NOHUP, View, last_lines, prefixes


def shown(data: bytes, **how: object) -> str:
    view = View(**how)  # type: ignore[arg-type]
    return view.feed(data) + view.end()


def in_pieces(data: bytes, cuts: list[int], **how: object) -> str:
    view, said, before = View(**how), "", 0  # type: ignore[arg-type]
    for cut in [*sorted(c % (len(data) + 1) for c in cuts), len(data)]:
        said += view.feed(data[before:cut])
        before = cut
    return said + view.end()


log_bytes = st.lists(
    st.one_of(
        st.binary(max_size=8),
        st.text(max_size=6).map(str.encode),
        st.sampled_from(
            [b"\n", b"\r", b"\r\n", b"\b\b", b"\x1b[K", b"\x1b[1;32m", b"\x1b[0m", b"\x1b", b"[2K", NOHUP]
        ),
        st.sampled_from(["━━", "é", "日本"]).map(str.encode),
    ),
    max_size=40,
).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(
    data=log_bytes,
    cuts=st.lists(st.integers(0, 1 << 16), max_size=8),
    prefix=st.sampled_from(["", "gpu01 | "]),
    through=st.booleans(),
)
def test_cuts_change_nothing(data: bytes, cuts: list[int], prefix: str, through: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "PART", 7)
        how = {"prefix": prefix, "through": through}
        assert in_pieces(data, cuts, **how) == shown(data, **how)


mostly_lines = st.lists(
    st.one_of(log_bytes, st.sampled_from([b"x" * 5 + b"\n", "zwölf\n".encode(), b"123456789\n", b"\n"])),
    max_size=12,
).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(
    data=mostly_lines,
    cuts=st.lists(st.integers(0, 1 << 16), max_size=8),
    prefix=st.sampled_from(["", "gpu01 | "]),
    through=st.booleans(),
    beginning=st.booleans(),
)
def test_lines_that_are_not_decoded_look_as_those_that_are(
    data: bytes, cuts: list[int], prefix: str, through: bool, beginning: bool
) -> None:
    how = {"prefix": prefix, "through": through, "beginning": beginning}
    view, said, before = View(**how), b"", 0  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "PART", 7)
        for cut in [*sorted(c % (len(data) + 1) for c in cuts), len(data)]:
            said += view.shown(data[before:cut])
            before = cut
        assert said + view.end().encode() == shown(data, **how).encode()


plain = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="g"), max_size=30)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(plain, max_size=20))
def test_taking_the_prefixes_off_gives_the_log(lines: list[str]) -> None:
    log = "".join(line + "\n" for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "PART", 8)
        assert shown(log.encode()) == log
        said = shown(log.encode(), prefix="gpu01 | ")
    assert said.replace("\ngpu01 + ", "").replace("gpu01 | ", "") == log


KERAS = (
    b"1/3 [====>....] - ETA: 9s - loss: 0.9"
    + b"\b" * 38
    + b"\r3/3 [=========] - 1s - loss: 0.51 - acc: 0.8\n"
)
KERAS3 = (
    "\x1b[1m1/3\x1b[0m \x1b[32m━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m2s\x1b[0m loss: 2.0".encode()
    + b"\b" * 17
    + b"\r"
    + "\x1b[1m3/3\x1b[0m \x1b[32m━━━\x1b[0m \x1b[1m0s\x1b[0m loss: 0.5\n".encode()
)
TQDM = (
    b"\r  0%|          | 0/9 [00:00<?, ?it/s]"
    b"\r 55%|#####     | 5/9 [00:05<00:04]"
    b"\r100%|##########| 9/9 [00:09<00:00]    \n"
)


def test_a_progress_bar_is_shown_in_its_final_state() -> None:
    assert shown(KERAS) == "3/3 [=========] - 1s - loss: 0.51 - acc: 0.8\n"
    assert shown(TQDM, prefix="a | ") == "a | 100%|##########| 9/9 [00:09<00:00]    \n"
    assert "3/3" in shown(KERAS3)
    assert "1/3" not in shown(KERAS3)


def test_a_terminal_gets_it_as_it_is() -> None:
    assert shown(KERAS, through=True) == KERAS.decode()
    view = View(through=True)
    assert view.feed(b"no end yet") == "no end yet"


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("abc\rX", "Xbc"),
        ("abc\r\x1b[KX", "X"),
        ("abc\r\x1b[2KX", "X"),
        ("long text\rshort\x1b[K", "short"),
        ("abc\b\bX", "aXc"),
        ("abc\b\b\b\b\b\bX", "Xbc"),
        ("abc\r", "abc"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("x\r\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("a\x1b[Ab\rc", "cb"),
        ("a\rb\x1b", "b"),
        ("", ""),
    ],
)
def test_the_final_state_of_a_line(line: str, seen: str) -> None:
    assert final(line) == seen


def test_nohup_s_line_is_dropped_only_where_it_is_nohup_s() -> None:
    assert shown(NOHUP + b"a\n") == "a\n"
    assert shown(NOHUP + NOHUP) == NOHUP.decode()
    assert shown(NOHUP, through=True) == ""
    assert shown(NOHUP, beginning=False) == NOHUP.decode()
    assert shown(b"nohup: ign") == "nohup: ign\n"
    assert shown(b"nohup: x\n") == "nohup: x\n"


def test_characters_cut_by_packets_are_whole_and_bad_bytes_replaced() -> None:
    view = View()
    assert view.feed("é".encode()[:1]) + view.feed("é".encode()[1:] + b"\n") == "é\n"
    assert shown(b"caf\xe9\n") == "caf�\n"
    assert shown("é".encode()[:1]) == "�\n"


def test_workers_never_share_a_line() -> None:
    one, two = View(prefix="gpu01 | "), View(prefix="gpu02 | ")
    assert one.feed(b"half a ") == ""
    assert two.feed(b"whole\n") == "gpu02 | whole\n"
    assert one.feed(b"line\nand") == "gpu01 | half a line\n"
    assert one.end() == "gpu01 | and\n"
    assert one.end() == ""


def test_a_long_line_without_an_end_comes_in_parts() -> None:
    view = View(prefix="gpu01 | ")
    part = "gpu01 | " + "x" * 65536 + "\n"
    assert view.feed(b"x" * 65536) == part
    assert view.feed(b"x" * 65536 + b"yz\nnext\n") == part.replace("|", "+") + "gpu01 + yz\ngpu01 | next\n"
    assert View().feed(b"x" * 70000) == "x" * 65536


def test_memory_does_not_grow_with_the_log() -> None:
    """Neither with lines, nor with one line without an end, nor with a bar that is drawn for ever."""
    for data in (b"a line of a log\n" * 4096, b"x" * 65536, b"\r 12%|###   | loss: 0.12345" * 2500):
        view = View(prefix="a | ")
        view.feed(data)
        tracemalloc.start()
        for _ in range(40):
            view.feed(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10_000_000


def test_prefixes_are_of_one_width_and_only_where_needed() -> None:
    assert prefixes(["gpu01"]) == {"gpu01": ""}
    assert prefixes(["a", "gpu02"]) == {"a": "a     | ", "gpu02": "gpu02 | "}
    assert prefixes(["a", "b"], colour=True) == {"a": "\x1b[36ma | \x1b[0m", "b": "\x1b[33mb | \x1b[0m"}
    long = View(prefix=prefixes(["a", "b"], colour=True)["a"]).feed(b"x" * 65536 * 2)
    assert long.count("a | ") == long.count("a + ") == 1


def test_the_last_lines_as_seen() -> None:
    assert last_lines(b"one\ntwo\n" + KERAS, 2) == ["two", "3/3 [=========] - 1s - loss: 0.51 - acc: 0.8"]
    assert last_lines(b"one\ntwo", 9) == ["one", "two"]
    assert last_lines(b"one\ntwo\n", 0) == []
    assert last_lines(NOHUP, 3, beginning=True) == []
    assert last_lines(b"", 3) == []
