"""Sockets to a host: TCP, or through a ProxyCommand; every step within a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
from typing import Any

from orchestrator.errors import Unreachable, reason
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.platform import tune
from orchestrator.hosts.ssh_config import Route

_LEAVES = 0.2  # seconds for a proxy to leave by itself once its stdin has ended


_FAMILIES = {"inet": (socket.AF_INET, "IPv4"), "inet6": (socket.AF_INET6, "IPv6")}


def tcp(host: str, route: Route, limit: Limit) -> socket.socket:
    """Connect, trying each address of the host's. Raises Unreachable, `host` named."""
    problem: OSError | None = None
    port = route.port
    found = _look_up(host, route, limit)
    for number, (family, _, _, _, target) in enumerate(found):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:  # a dead address leaves the others their share of the time
            sock.settimeout(max(limit.left / (len(found) - number), 0.01))
            if route.bind:
                _bind(sock, route.bind)
            sock.connect(target)
        except OSError as error:
            sock.close()
            problem = problem or error
            continue
        tune(sock)
        return sock
    raise Unreachable(_say(problem, port, limit), where=host) from problem


def _bind(sock: socket.socket, address: str) -> None:
    """Use an address of this machine (BindAddress of ssh_config)."""
    try:
        target = socket.getaddrinfo(address, 0, sock.family, socket.SOCK_STREAM)[0][4]
        sock.bind(target)
    except OSError as error:
        raise OSError(error.errno, f"BindAddress {address}: {error.strerror}") from error


def _say(problem: OSError | None, port: int, limit: Limit) -> str:
    if problem is None or isinstance(problem, TimeoutError):
        return f"connection timed out after {limit.seconds:g} s"
    if isinstance(problem, ConnectionRefusedError):
        return f"connection refused (port {port})"
    return f"{reason(problem)} (port {port})"


def _look_up(host: str, route: Route, limit: Limit) -> list[Any]:
    """Resolve a name in a thread of its own: getaddrinfo knows no deadline."""
    family, kind = _FAMILIES.get(route.family, (socket.AF_UNSPEC, ""))
    address = route.address
    found: list[Any] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(address, route.port, family, socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:  # UnicodeError: a label too long, or empty
            failed.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(limit.left)
    if failed:
        of_kind = f" with an {kind} address (AddressFamily {route.family})" if kind else ""
        raise Unreachable(f"no such host name{of_kind}: {address}", where=host) from failed[0]
    if not found:
        raise Unreachable(
            f"no answer from the name service for {address} after {limit.seconds:g} s", where=host
        )
    return found


class ProxySocket:
    """A ProxyCommand's stdin and stdout as a socket; closing it ends the command.

    One end of a socket pair is the command's stdin and stdout, so that its end is seen as EOF
    (paramiko.ProxyCommand spins on it, and knows no shell).
    """

    def __init__(self, command: str) -> None:
        self._lock, self._open = threading.Lock(), True
        self._socket, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the socket
        self.complaint = ""
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._said,
                start_new_session=True,  # Ctrl-C is ours
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self) -> None:
        """Close the socket and end the command with all that it started; `complaint` is its last word."""
        with self._lock:  # paramiko closes it from a thread of its own
            if self._open:
                self._open = False
                self._socket.close()
                self._end()
                with self._said as said:
                    said.seek(0)
                    lines = said.read().decode("utf-8", "replace").split("\n")
                status = f"exit status {self._process.returncode}"
                self.complaint = next((x.strip() for x in reversed(lines) if x.strip()), status)

    def _end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVES)
        for by in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, by)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
                return
