"""The proof at the end of a deploy: what is seen from inside, by the way that people come in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import HostError, OrchError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script

PROOF = ("python3", "/usr/local/lib/orch/proof", "/workspace")
"""The proof's command in a container."""

PROOF_DEADLINE = 300.0
"""Seconds for importing TensorFlow or PyTorch from a cold disk."""


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_BY_HAND = (
    "Packages that were installed by hand come before the image's: on the host, remove home/.local in the "
    "folder of the project (~/.orch/PERSON/PROJECT)."
)


@dataclass(frozen=True)
class Seen:
    """What an environment holds, as seen from inside."""

    python: str
    user: str
    uid: int
    gid: int
    home: str
    tensorflow: str | None = None
    torch: str | None = None  # asked only without TensorFlow
    cuda: bool | None = None  # whether the framework is built with it
    framework_gpus: int | None = None
    gpus: tuple[str, ...] = ()  # UUIDs
    free_mb: int | None = None
    packages: tuple[str, ...] = ()

    @property
    def gpu_count(self) -> int:
        """GPUs that a training would use: the framework's word counts where it is built with CUDA."""
        return int(self.framework_gpus or 0) if self.cuda else len(self.gpus)


def through_sshd(
    machine: Machine, port: int, user: str, host_keys: Sequence[str], told: Callable[[str], None]
) -> Seen | None:
    """Log in to the container's own sshd, its host key pinned, and look. Raises HostError.

    Returns None where the host's sshd lets nothing through: then nobody can come in this way.
    """
    from orchestrator.hosts.ssh import hop

    try:
        machine.tunnel(port).close()
    except HostError as error:
        if "forbids forwarding" not in error.message:
            raise
        told(f"note: {error.message}, so ssh can't reach the container; orch enters by the engine")
        return None
    with hop(machine, port, user=user, host_keys=host_keys) as inside:
        return look(inside, Command(PROOF))


def look(machine: Machine, command: Command) -> Seen:
    """Run the proof on a machine. Raises HostError with what Python says when it fails."""
    result = machine.run(Script("proof", command.shell(), asks=True), deadline=PROOF_DEADLINE)
    lines = [line for line in result.text.splitlines() if line.startswith("{")]
    if result.status or not lines:
        said = _COLOUR.sub("", result.err.decode("utf-8", "replace")).strip()
        last = said.splitlines()[-1] if said else f"status {result.status}"
        by_hand = re.search(r'File "/[^"]*/\.local/lib/python', said)
        raise HostError(
            f"the proof from inside failed: {last}",
            where=machine.host.name,
            details=said or None,
            hint=_BY_HAND if by_hand else None,
        )
    return parse(json.loads(lines[-1]))


def parse(found: Mapping[str, Any]) -> Seen:
    """Read the proof's answer."""
    known: dict[str, Any] = {k: v for k, v in found.items() if k in Seen.__dataclass_fields__}
    known.update({k: tuple(v) for k, v in known.items() if isinstance(v, list)})
    return Seen(**known)


def check(seen: Seen, *, gpus: int, uid: int, where: str) -> None:
    """Raise HostError when less is seen from inside than was asked for."""
    if seen.gpu_count < gpus:
        raise HostError(
            f"{seen.gpu_count} of {gpus} GPUs are seen from inside the container",
            where=where,
            hint=_gpu_hint(seen),
        )
    if seen.uid != uid:
        raise OrchError(f"the user inside has uid {seen.uid} instead of {uid}", where=where)


def _gpu_hint(seen: Seen) -> str:
    if not seen.cuda or not seen.gpus:
        return "See: orch doctor, and on the host nvidia-smi."
    name = "TensorFlow" if seen.tensorflow else "PyTorch"
    return f"nvidia-smi sees more there than {name}: its CUDA libraries do not fit, or the driver is too old."
