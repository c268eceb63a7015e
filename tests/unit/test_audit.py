"""audit.log: each script that changes a host for good appends a line to it, all of one form."""

from __future__ import annotations

import re
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
LINE = r"""printf '%s %s ([a-z]+|\{\{ verb \}\})( [a-z]+)?( %s)?\\n' """
LINE += r""""\$\(date -u \+%Y-%m-%dT%H:%M:%SZ\)" \{\{ by \| q \}\}"""
WRITES = {
    "cp": "files/place.sh.j2",
    "deploy": "container/finish.sh.j2",
    "down": "container/down.sh.j2",
    "image": "container/image_rm.sh.j2",
    "prune": "run/prune.sh.j2",
    "purge": "container/purge.sh.j2",
    "stop": "run/stop.sh.j2",
    "{{ verb }}": "run/launch.sh.j2",  # train, rerun, resume
}


def test_each_line_has_a_time_a_person_and_a_verb() -> None:
    lines = [
        line
        for path in sorted(TEMPLATES.rglob("*.j2"))
        for line in path.read_text().splitlines()
        if re.search(r">> .*/audit\.log", line)
    ]
    assert len(lines) >= len(WRITES)
    assert [line for line in lines if not re.search(LINE, line)] == []


def test_what_changes_a_host_says_so() -> None:
    for verb, name in WRITES.items():
        found = [m[1] for m in re.finditer(LINE, (TEMPLATES / name).read_text())]
        assert verb in found, name
