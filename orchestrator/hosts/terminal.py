"""The caller's terminal joined to a stream with a pseudo-terminal: a real interactive shell."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator

from orchestrator.errors import LostConnection
from orchestrator.hosts.base import Stream, Terminal


def local_terminal() -> Terminal:
    """Return the kind and size of the caller's terminal, to ask the host for the same."""
    size = shutil.get_terminal_size()
    return Terminal(os.environ.get("TERM", "xterm"), size.columns, size.lines)


def interact(stream: Stream) -> int:
    """Join stdin and stdout to a stream until it ends, and return its exit status.

    A terminal is in raw mode meanwhile (Ctrl-C goes to the host) and its size is passed on.
    Raises LostConnection when the end is not known.
    """
    wake, stop = os.pipe()
    typing = threading.Thread(target=_send, args=(stream, sys.stdin.fileno(), wake), daemon=True)
    try:
        with _raw(sys.stdin.fileno()), _sizes(stream):
            typing.start()
            while piece := stream.read():
                _show(piece)
            status = stream.status()
    finally:
        os.close(stop)  # wakes the thread, which must not eat what is typed next
        typing.join()
        os.close(wake)
    if status is None:
        raise LostConnection("the connection went, and how it ended is not known")
    return status


def _show(piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


def _send(stream: Stream, stdin: int, wake: int) -> None:
    poll = select.poll()
    poll.register(stdin, select.POLLIN)
    poll.register(wake, select.POLLIN)
    with contextlib.suppress(LostConnection, OSError):
        while wake not in {number for number, _ in poll.poll()}:
            piece = os.read(stdin, 1 << 16)
            if not piece:
                stream.close_stdin()
                return
            stream.write(piece)


@contextlib.contextmanager
def _raw(stdin: int) -> Iterator[None]:
    """Put a terminal into raw mode, and back whatever happens; anything else is left as it is."""
    if not os.isatty(stdin):
        yield
        return
    before = termios.tcgetattr(stdin)
    try:
        tty.setraw(stdin)
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _sizes(stream: Stream) -> Iterator[None]:
    """Pass changes of the window's size on."""

    def changed(*_: object) -> None:
        now = local_terminal()
        with contextlib.suppress(LostConnection, OSError):
            stream.resize(now.columns, now.rows)

    before = signal.signal(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
