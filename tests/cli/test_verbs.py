"""Words that are no verb of orch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calling import call
from tests.cli.some_runs import project

__all__ = ["project"]  # a fixture


@pytest.mark.parametrize(
    ("verb", "guess"),
    [("up", "deploy"), ("run", "train"), ("kill", "stop"), ("tial", "tail"), ("gpu-stats", "gpu-status")],
)
def test_a_verb_of_another_tool(project: Path, verb: str, guess: str) -> None:
    said = call(project, verb)
    assert (said.status, said.err) == (2, f"orch: no verb '{verb}'. Did you mean 'orch {guess}'?\n")


def test_a_verb_unlike_any(project: Path) -> None:
    assert call(project, "xyzzy").err == "orch: no verb 'xyzzy'.\n"
