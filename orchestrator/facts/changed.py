"""What somebody put into a container past orch: packages of pip and apt, orch's own files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section

_SIGN = {"A": "+", "D": "-"}
_OURS = frozenset({"startup"})
"""What the entrypoint itself puts beside its files."""


@dataclass(frozen=True)
class ChangedReport:
    """What differs from the image: `+wandb-0.17.0` was installed, `-numpy-1.23.5` removed."""

    pip: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # of orch, in /usr/local/lib/orch
    home: tuple[str, ...] = ()  # installed by `pip install --user`: they come before the image's


def parse(section: Section) -> ChangedReport:
    """Read the answer of `facts/changed.sh.j2`."""
    lines = Lines(section.text)
    diff = [(how, path) for how, path, *_ in lines.all("diff", 2)]
    return ChangedReport(
        pip=tuple(sorted(_packages(diff, r".*/(?:site|dist)-packages/(.*)\.(?:dist|egg)-info"))),
        apt=tuple(sorted(_packages(diff, r"/var/lib/dpkg/info/([^:]*)(?::.*)?\.list"))),
        files=tuple(path.rpartition("/")[2] for how, path in diff if _own(how, path)),
        home=tuple(sorted(re.sub(r"\.(dist|egg)-info$", "", name) for name in lines.texts("home"))),
    )


CHANGED: Fact[ChangedReport] = Fact("changed", "facts/changed.sh.j2", parse)


def _packages(diff: list[tuple[str, str]], pattern: str) -> Iterator[str]:
    for how, path in diff:
        found = re.fullmatch(pattern, path)
        if found and how in _SIGN:
            yield f"{_SIGN[how]}{found.group(1)}"


def _own(how: str, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == "/usr/local/lib/orch" and name not in _OURS and how != "A"
