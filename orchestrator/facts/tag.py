"""Whether a registry has an image: asked of the host's own engine, which has its proxies and logins."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section

_GONE = ("no such manifest", "manifest unknown", "not found", "invalid reference format")
_CLOSED = ("denied", "unauthorized")


@dataclass(frozen=True)
class TagReport:
    """`found` None: the registry could not be asked. `said`: the engine's own words."""

    found: bool | None
    said: str = ""


def parse(section: Section) -> TagReport:
    """Read the answer of `facts/tag.sh.j2`. Texts: docker 19.03 to 28."""
    lines = Lines(section.text)
    said = lines.text("said").strip()
    if lines.number("status") == 0:
        return TagReport(True)
    low = said.lower()
    known = any(text in low for text in (*_GONE, *_CLOSED)) and "lookup" not in low
    return TagReport(False if known else None, said)


TAG: Fact[TagReport] = Fact("tag", "facts/tag.sh.j2", parse)
