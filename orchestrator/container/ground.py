"""What the disk under the project's folder does not give, in words for plans and for doctor."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.facts.disk import Disk
from orchestrator.facts.docker import DockerReport
from orchestrator.facts.mount import Mount
from orchestrator.facts.system import SystemReport
from orchestrator.units import size

NO_LOCKS = "no file locks on the disk of root{kind}: runs are judged by their processes and heartbeats"
NO_EXEC = (
    "root is mounted noexec: what a run or pip puts there is not executable (python3 FILE, sh FILE work)"
)
VENV_NO_EXEC = "root is mounted noexec: compiled packages in a venv there can't be loaded"

LITTLE_MB = 200
"""Room in `root` below which there is none for a few logs and checkpoints."""


def unseen(mount: Mount, system: SystemReport, docker: DockerReport) -> str | None:
    """Return why an engine that is root can't mount the project's folder: the disk shuts root out."""
    rootless = docker.kind != "docker" or "rootless" in docker.security
    if not mount.private or rootless or system.uid == 0:
        return None
    disk = f"its disk ({mount.kind}, without allow_other)"
    return f"only {system.user} may look into {disk}, and Docker runs as root"


def ground_notes(mount: Mount) -> Iterator[str]:
    """Yield what works otherwise than a person would expect."""
    if not mount.executes:
        yield NO_EXEC
    if mount.locks is False:
        yield NO_LOCKS.format(kind=f" ({mount.kind})" if mount.kind else "")


def room_notes(disk: Disk | None) -> Iterator[str]:
    """Yield a word on a disk that is nearly full."""
    if disk and disk.free_mb < LITTLE_MB:
        yield f"{size(disk.free_mb * 2**20)} free in {disk.path}: that is little for logs and checkpoints"
