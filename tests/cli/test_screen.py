"""Where pieces of a log become visible."""

from __future__ import annotations

import sys

import pytest

from orchestrator.cli.screen import Screen
from orchestrator.logs.session import Piece


@pytest.mark.parametrize(("terminal", "shown"), [(True, "1/9 loss 0.5\n"), (False, "1/9 loss 0.5\n")])
def test_what_is_said_next_begins_a_line_of_its_own(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool, shown: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    screen = Screen(["gpu01"], raw=False)
    screen.show("gpu01", Piece(0, b"1/9 loss 0.5"))
    screen.end()
    assert capfd.readouterr().out == shown


def test_raw_adds_no_byte(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    screen = Screen(["gpu01"], raw=True)
    screen.show("gpu01", Piece(0, b"no end"))
    screen.end()
    assert capfd.readouterr().out == "no end"
