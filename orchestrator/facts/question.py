"""A fact is one shell script and one pure parser; a question asks several of them in one exec."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from orchestrator.errors import HostError
from orchestrator.hosts.base import DEADLINE, Machine
from orchestrator.hosts.command import Script
from orchestrator.render import render

T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """What one fact's script printed on stdout and stderr together, and its exit status."""

    text: str
    status: int


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A name, the template of the script (`facts/<name>.sh.j2`), and the parser of its answer."""

    name: str
    template: str
    parse: Callable[[Section], T]


@dataclass(frozen=True)
class Question:
    """One script that asks several facts, and the mark that parts their answers."""

    script: Script
    mark: str

    def sections(self, text: str) -> dict[str, Section]:
        """Part the script's answer into the facts' sections."""
        found: dict[str, Section] = {}
        for piece in text.split(f"{self.mark} begin ")[1:]:
            name, _, rest = piece.partition("\n")
            body, end, status = rest.partition(f"\n{self.mark} end ")
            if end:
                found[name] = Section(body, int(status.split("\n", 1)[0]))
        return found


def question(*facts: Fact[Any], values: Mapping[str, Any] | None = None) -> Question:
    """Put the facts' scripts into one; each runs in a subshell, so that none can harm the next."""
    mark = "orch-fact-" + secrets.token_hex(8)
    parts = []
    for fact in facts:
        body = render(fact.template, **(values or {})).rstrip()
        parts.append(
            f"printf '%s begin %s\\n' '{mark}' '{fact.name}'\n(\n{body}\n) 2>&1\n"
            f"printf '\\n%s end %s\\n' '{mark}' \"$?\""
        )
    return Question(Script("+".join(f.name for f in facts), "\n".join(parts), asks=True), mark)


@dataclass(frozen=True)
class Answers:
    """What a host answered, by fact."""

    host: str
    sections: Mapping[str, Section]

    def of(self, fact: Fact[T]) -> T:
        """Return one fact's parsed answer. Raises HostError when the host gave none."""
        section = self.sections.get(fact.name)
        if section is None:
            raise HostError(f"no answer to the question {fact.name}", where=self.host)
        return fact.parse(section)


def ask(
    machine: Machine, *facts: Fact[Any], values: Mapping[str, Any] | None = None, deadline: float = DEADLINE
) -> Answers:
    """Ask a machine several facts in one exec."""
    asked = question(*facts, values=values)
    result = machine.run(asked.script, deadline=deadline)
    return Answers(machine.host.name, asked.sections(result.text))
