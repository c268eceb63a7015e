"""What else a host knows of a worker of a run, asked in one exec: its end, its log, who was beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.container.identity import slug
from orchestrator.facts.lines import json_object
from orchestrator.facts.question import Fact, Section
from orchestrator.run.record import Ground, Record
from orchestrator.run.spec import RunSpec

HEAD = 16_000
"""Bytes of a long log's beginning that are looked at: there TensorFlow says what it does not find."""

TAIL = 32_000
"""Bytes of a log's end that are looked at."""


@dataclass(frozen=True)
class Around:
    """The answer. Sizes are in bytes, pairs are (all, free); None where the host doesn't say."""

    end: Mapping[str, Any] = field(default_factory=dict)  # end.json: what the supervisor saw at the end
    head: str = ""
    tail: str = ""
    size: int = 0  # of the log
    progress: str = ""  # the last line of progress.jsonl
    continued: str = ""  # the run that goes on with this one's work
    disk: tuple[int, int] | None = None  # where the run is, now
    memory: tuple[int, int] | None = None  # of the host, now
    beside: tuple[Record, ...] = ()  # runs of anybody that lived when it did
    good: tuple[Record, ...] = ()  # of its person, project and name, and succeeded; the newest first

    @property
    def log(self) -> str:
        """What there is of the log; a line end stands where the middle is left out."""
        return f"{self.head}\n{self.tail}" if self.head else self.tail


def parse(section: Section) -> Around:
    """Read the answer of facts/why.sh.j2."""
    first, *others = _blocks(section.text)
    records = [(kind, r) for kind, block in others if (r := _record(block)) is not None]
    said = first[1]
    return Around(
        end=json_object(said.get("end")),
        head=said.get("head", ""),
        tail=said.get("tail", ""),
        size=int(said.get("size") or 0),
        progress=said.get("progress", "").strip(),
        continued=next(iter(said.get("continued", "").split()), ""),  # a run, and its host
        disk=_pair(said.get("disk")),
        memory=_pair(said.get("memory")),
        beside=tuple(r for kind, r in records if kind == "beside"),
        good=tuple(r for kind, r in records if kind == "good"),
    )


AROUND: Fact[Around] = Fact("why", "facts/why.sh.j2", parse)
"""What is known around one worker; `query` gives the values."""


def query(record: Record, *, started: float, ended: float) -> dict[str, Any]:
    """Return the values for AROUND; `started` and `ended` by the host's clock."""
    return {
        "root": record.place.rsplit("/", 2)[0],
        "place": record.place,
        "folder": record.folder,
        "host": record.host,
        "slug": slug(record.spec.name or "run"),
        "since": int(started),
        "until": int(ended) + 1,
        "before": int(started),
        "head": HEAD,
        "tail": TAIL,
    }


def _blocks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    kind, block = "", dict[str, str]()
    for line in text.split("\n"):
        key, _, value = line.partition(" ")
        if key in ("beside", "good"):
            yield kind, block
            kind, block = key, {}
        elif key:
            block[key] = value.replace("\036", "\n")
    yield kind, block


def _record(block: Mapping[str, str]) -> Record | None:
    try:
        return Record(
            host=block["host"],
            folder=block["folder"],
            spec=RunSpec.parse(json.loads(block["spec"])),
            ground=Ground(0.0),
            worker=json_object(block.get("worker")),
            state=json_object(block.get("state")),
            progress=block.get("progress", "").strip(),
            tail=block.get("tail", ""),
        )
    except (ValueError, KeyError):
        return None


def _pair(text: str | None) -> tuple[int, int] | None:
    words = (text or "").split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or words[0] == "0":
        return None
    return int(words[0]), int(words[1])
