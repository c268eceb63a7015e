"""Peers in a bad state: listeners that are no SSH server, and processes that stand still."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from tests.until import until

QUICK = 2.0
"""Seconds to connect, for hosts that won't be reached anyway."""


@contextmanager
def listening(*, backlog: int = 8) -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(backlog)
        yield sock


def jump_of(machine: Machine) -> Machine:
    """Return the jump that a connection goes through."""
    behind = machine._behind  # type: ignore[attr-defined]
    found: Machine = behind.machine
    return found


def ends(pid: int) -> None:
    """Wait until a process is gone."""
    until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of process {pid}")


def pid_of_session(machine: Machine) -> int:
    """Return the pid of the sshd process that serves this connection."""
    return int(machine.run(Script("x", "echo $PPID")).out)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
