"""Peers in a bad state: listeners that are no SSH server, and processes that stand still."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.hosts.command import Script
from orchestrator.hosts.ssh import SshMachine

QUICK = 1.0
"""Seconds to connect, for hosts that won't be reached anyway."""


@contextmanager
def listening(*, backlog: int = 8) -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(backlog)
        yield sock


def pid_of_session(machine: SshMachine) -> int:
    """Return the pid of the sshd process that serves this connection."""
    return int(machine.run(Script("x", "echo $PPID")).out)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
