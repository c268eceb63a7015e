"""What Ansible keeps in group_vars/ and host_vars/: orch reads none of it, and names what it misses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from orchestrator.inventory.source import shown

FOLDERS = ("group_vars", "host_vars")
_VARIABLE = re.compile(r"""(?:[{\s]*["'])?(\w+)["']?\s*:""")
"""A key at the beginning of a line: of YAML's outermost level, or of JSON."""
_LONGEST = 1 << 16  # bytes of a file that are looked at
_SHOWN = 3


def missed(files: Iterable[Path], keys: Collection[str]) -> str | None:
    """Return where variables of these names stand beside the inventory files, in words; None: nowhere.

    Folders that say nothing of `keys` are the team's own affair, and no word is lost on them.
    """
    folders = dict.fromkeys(file.parent / name for file in files for name in FOLDERS)
    found = [place for folder in folders for file in _files(folder) for place in _places(file, keys)]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more if found else None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _places(file: Path, keys: Collection[str]) -> Iterator[str]:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        key = _VARIABLE.match(line)
        if key and key.group(1) in keys:
            yield f"{key.group(1)} ({shown(file)}:{number})"
