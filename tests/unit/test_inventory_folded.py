"""Many names as one word, which means them again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.inventory import load
from orchestrator.inventory.folded import folded

NAMES = st.from_regex(r"[a-c]{1,2}(-?[0-9]{1,3}){0,2}(\.x)?", fullmatch=True)


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["gpu01"], "gpu01"),
        (["gpu01", "gpu02"], "gpu01,gpu02"),
        ([f"gpu{n:02}" for n in range(1, 21)], "gpu[01-20]"),
        ([f"n{n}" for n in range(8, 13)], "n[8-12]"),
        (["gpu01", "gpu02", "gpu03", "gpu07", "login"], "gpu[01-03,07],login"),
        (["a1.lab", "a3.lab", "a5.lab", "b"], "a[1,3,5].lab,b"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.[1-3]"),
        (["c3", "c1", "c2", "c1"], "c[1-3]"),
        (["x08", "x09", "x010"], "x[08-09,010]"),
        (["x", "y", "z"], "x,y,z"),
        (["fe80::1", "fe80::2", "fe80::3"], "fe80::1,fe80::2,fe80::3"),
    ],
)
def test_what_people_read(names: list[str], word: str) -> None:
    assert folded(names) == word


@given(st.lists(NAMES, unique=True, max_size=30))
def test_it_means_the_same_hosts(names: list[str]) -> None:
    chosen = load([], environ={}).select([folded(names)]).hosts if names else ()
    assert sorted(host.name for host in chosen) == sorted(names)
