"""The room on a file system, as `facts/disk.sh.j2` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.facts.lines import Lines


@dataclass(frozen=True)
class Disk:
    """The file system that holds a path. Room is for an ordinary account; inodes None: it counts none."""

    path: str
    total_mb: int
    free_mb: int
    inodes_free: int | None = None


def disks(lines: Lines) -> tuple[Disk, ...]:
    """Return every disk that a script's answer tells of."""
    found = []
    for path, total, free, inodes, *_ in lines.all("disk", 4):
        if total.isdecimal() and free.isdecimal():
            nodes = int(inodes) if inodes.isdecimal() else None
            found.append(Disk(path, int(total) // 1024, int(free) // 1024, nodes))
    return tuple(found)
