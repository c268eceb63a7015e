"""What one end of an image's copy has: the account, and the programs that pack."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section


@dataclass(frozen=True)
class CopyingReport:
    """Of zstd, pigz, gzip and ssh those that are there."""

    account: str = ""
    programs: frozenset[str] = frozenset()


def parse(section: Section) -> CopyingReport:
    """Read the answer of `facts/copying.sh.j2`."""
    lines = Lines(section.text)
    return CopyingReport(lines.text("account"), frozenset(lines.texts("program")))


COPYING: Fact[CopyingReport] = Fact("copying", "facts/copying.sh.j2", parse)
