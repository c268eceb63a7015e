"""RUN on a command line: an id, a unique prefix of one, a name, or `latest`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.container.identity import slug
from orchestrator.errors import UsageError
from orchestrator.run.ids import ID

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """What a RUN word asks for."""

    word: str

    @property
    def by_id(self) -> bool:
        """Whether it is an id, or the beginning of one: then it may be anybody's run."""
        return bool(re.match(r"\d{8}", self.word))

    @property
    def pattern(self) -> str:
        """A shell pattern for the folder names of runs that may be meant."""
        if ID.match(self.word):
            return self.word
        if self.by_id:
            return f"{self.word}*"
        return "*" if self.word == "latest" else f"*-{slug(self.word)}-????"

    def matches(self, run: str, name: str | None, *, service: bool = False) -> bool:
        """Whether a run of this id and name may be meant; a service is never the latest run."""
        if self.by_id:
            return run.startswith(self.word)
        if self.word == "latest":
            return not service
        return self.word == name or (name is None and self.word == "run")


def newest(wanted: Wanted, found: Iterable[tuple[str, float, T]]) -> list[T]:
    """Return all that belongs to the one run that is meant (its workers), or an empty list.

    `found` are run id, when it was asked for (an id has the minute only), and anything. A name means its
    newest run. Raises UsageError when a prefix fits several runs.
    """
    rows = list(found)
    ids = sorted({(when, run) for run, when, _ in rows}, reverse=True)
    if wanted.by_id and len(ids) > 1:
        names = ", ".join(run for _, run in ids[:5])
        raise UsageError(f"'{wanted.word}' could be any of: {names}", hint="Say more of it.")
    return [item for run, when, item in rows if (when, run) == ids[0]]
