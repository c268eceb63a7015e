"""What a deploy does to the container: one word for each way."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.container.difference import Difference
from orchestrator.container.engine import Environment
from orchestrator.facts.docker import Container

CREATE, REPLACE, BESIDE, START, PROVE, KEEP = "create", "replace", "beside", "start", "prove", "unchanged"
UNPAUSE = "unpause"
"""What is done to the container. `beside`: a run lives in the old one; `prove`: a deploy was cut short."""


def choose_action(
    old: Container | None, recorded: Environment | None, changes: Sequence[Difference], *, live: bool
) -> str:
    """Return the action. `recorded`: what was deployed last; `live`: a run lives in `old` and may go on."""
    if not old:
        return CREATE
    if changes:
        return BESIDE if live else REPLACE
    if old.paused:
        return UNPAUSE
    if not old.running:
        return START
    return KEEP if recorded and recorded.container == old.id else PROVE
