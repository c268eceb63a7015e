"""How often somebody connected to a host and ran something there, read off sshd's own log."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Counts:
    """SSH connections, and sessions in them: execs, shells and subsystems (sftp)."""

    connections: int
    execs: int
    shells: int
    subsystems: int


class Counter:
    """Counts from the moment it is made, or last reset."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.reset()

    def reset(self) -> None:
        """Count from now on."""
        self._mark = self._log.stat().st_size

    def read(self) -> Counts:
        """The counts so far. A port that is only knocked at counts as a connection."""
        with self._log.open("rb") as file:
            file.seek(self._mark)
            lines = file.read().decode(errors="replace").splitlines()

        def count(start: str) -> int:
            return sum(line.startswith(start) for line in lines)

        return Counts(
            connections=count("Connection from "),
            execs=count("Starting session: command "),
            shells=count("Starting session: shell "),
            subsystems=count("Starting session: subsystem "),
        )
