"""Which engines a host has and an account may use, and by which a project is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section
from orchestrator.facts.trouble import explain


@dataclass(frozen=True)
class EnginesReport:
    """What answered. `trouble` says of an engine that can't be used why: `docker is not allowed for ana`."""

    deployed: str | None = None  # the engine that the project is deployed by
    usable: frozenset[str] = frozenset()
    trouble: Mapping[str, str] = field(default_factory=dict)


def parse(section: Section) -> EnginesReport:
    """Read the answer of `facts/engines.sh.j2`."""
    lines = Lines(section.text)
    account = lines.text("account")
    usable, trouble = set(), {}
    for name, status, said, *_ in lines.all("engine", 3):
        if name == "docker" and "podman" in said.lower():
            continue  # another name of podman's
        if status == "0":
            usable.add(name)
        else:
            trouble[name] = _why(name, said, account)
    return EnginesReport(lines.text("deployed") or None, frozenset(usable), trouble)


def _why(name: str, said: str, account: str) -> str:
    kind = explain(said or "no answer", "podman" if name == "podman" else "docker").kind
    words = {"denied": f"is not allowed for {account}", "down": "does not run"}
    return f"{name} {words.get(kind) or 'does not answer: ' + said.strip()[:120]}"


ENGINES: Fact[EnginesReport] = Fact("engines", "facts/engines.sh.j2", parse)
