"""An entry of the schedule as one line of a crontab, and back."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orchestrator
from orchestrator.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """When (`cron`), where (`folder`, `environ`) and what: the words behind `orch train`."""

    name: str
    cron: str
    folder: str
    words: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """Return the crontab's line. Raises UsageError for what no such line can hold."""
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.environ.items()]
        words = [*program(), "schedule", "run", self.name, *self.words]
        command = " ".join(["cd", shlex.quote(self.folder), "&&", *settings, shlex.join(words)])
        if re.search(r"[\0\r\n]", command):
            raise UsageError("a line of the crontab can't hold a line break")
        return f"{self.cron} {command.replace('%', chr(92) + '%')}"


def program() -> list[str]:
    """Return the words that call this orch from anywhere, by absolute paths."""
    script = Path(sys.executable).with_name("orch")
    if script.is_file():
        return [str(script)]
    return [
        "env",
        f"PYTHONPATH={Path(orchestrator.__file__).parents[1]}",
        sys.executable,
        "-m",
        "orchestrator",
    ]


def parse(name: str, line: str) -> Entry | None:
    """Read a line that `Entry.line` wrote; None when a person has made something else of it."""
    match = re.fullmatch(r"(@\w+|(?:\S+\s+){4}\S+)\s+(.*)", line)
    if not match:
        return None
    try:
        words = shlex.split(match.group(2).replace("\\%", "%"))
        verb = next(i for i in range(len(words)) if words[i : i + 3] == ["schedule", "run", name])
    except (ValueError, StopIteration):
        return None
    if words[0] != "cd" or words[2:3] != ["&&"]:
        return None
    before = words[3:verb]
    settings = [
        w.partition("=") for w in before if re.match(r"[A-Z_]+=", w) and not w.startswith("PYTHONPATH=")
    ]
    return Entry(
        name=name,
        cron=" ".join(match.group(1).split()),
        folder=words[1],
        words=tuple(words[verb + 3 :]),
        environ={key: value for key, _, value in settings},
    )
