"""All that depends on the caller's system: Linux, macOS, WSL. The rest of the client side is POSIX.

What could not be tried on macOS and WSL is listed in docs/platforms.md.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import sys
from collections.abc import Collection

_SELECTABLE = 1024  # FD_SETSIZE: select takes no higher number
_SILENT_PEER = 30_000  # ms that sent data may stay unacknowledged (TCP_USER_TIMEOUT, RFC 5482)
_OF_A_HOST = 8  # open files for a host that is being reached: socket, wake-up pipe, `ssh -G`, what it says
_OWN = 100  # open files of the program itself
_MOST = 10_240  # OPEN_MAX of macOS, which takes no higher limit however high the hard one is


def ready(read: Collection[int], write: Collection[int] = (), seconds: float | None = None) -> set[int]:
    """Return the files of `read` and `write` on which something can be done, or that have ended.

    Waits for `seconds`, without limit when None. By poll, which takes any number; on macOS by select, since
    poll there does not know terminals.
    """
    if sys.platform == "darwin" and all(number < _SELECTABLE for number in (*read, *write)):
        return _selected(read, write, seconds)
    poll = select.poll()
    for number in {*read, *write}:
        poll.register(number, select.POLLIN * (number in read) | select.POLLOUT * (number in write))
    return {number for number, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)}


def _selected(read: Collection[int], write: Collection[int], seconds: float | None) -> set[int]:
    can_read, can_write, _ = select.select(read, write, (), None if seconds is None else max(0.0, seconds))
    return {*can_read, *can_write}


def tune(sock: socket.socket) -> None:
    """Send small pieces at once, and give up on a peer that acknowledges nothing, where the system can."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; the first WSL refuses it, and keepalives see it too
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_PEER)


def room_for(hosts: int) -> None:
    """Raise the soft limit of open files so that so many hosts fit: macOS begins with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_OWN + _OF_A_HOST * hosts, _MOST)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
