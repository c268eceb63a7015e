"""Numbers as people read and write them."""

from __future__ import annotations

import pytest

from orchestrator.units import as_docker, bytes_of, seconds_of, spell


@pytest.mark.parametrize(
    ("text", "seconds", "again"),
    [
        ("1h", 3600, "1h"),
        ("90s", 90, "1m30s"),
        ("90", 90, "1m30s"),
        ("1d12h", 129_600, "1d12h"),
        (" 1H30M ", 5400, "1h30m"),
        ("0.5s", 0.5, "0.5s"),
        ("0", 0, "0s"),
    ],
)
def test_a_time_span(text: str, seconds: float, again: str) -> None:
    assert seconds_of(text) == seconds
    assert spell(seconds) == again
    assert seconds_of(spell(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "h", "1 h", "1h1d", "-1", "1w", "1e3", "nan", "\u0661h", "1.5h"])
def test_no_time_span(text: str) -> None:
    with pytest.raises(ValueError, match="not a time like"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["64g", "1536m", "3k", "5", "0"])
def test_a_size_of_dockers(text: str) -> None:
    assert as_docker(bytes_of(text)) == text
