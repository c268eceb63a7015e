"""The caller's terminal joined to a stream with a pseudo-terminal: a real interactive shell."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import TextIO

from orchestrator.errors import LostConnection
from orchestrator.hosts.base import Stream, Terminal
from orchestrator.hosts.escape import Escape
from orchestrator.hosts.platform import ready

_TICK = 0.1  # seconds that stderr may wait while stdout is silent


def local_terminal() -> Terminal:
    """Return the kind and size of the caller's terminal, to ask the host for the same."""
    size = shutil.get_terminal_size()
    return Terminal(os.environ.get("TERM", "xterm"), size.columns, size.lines)


def interact(stream: Stream, *, stdin: bool = True, raw: bool = True, escape: Escape | None = None) -> int:
    """Join the caller's stdin, stdout and stderr to a stream until it ends, and return its exit status.

    With `raw` a terminal is in raw mode meanwhile (Ctrl-C goes to the host); its size is passed on. Without
    `stdin` nothing is read of the caller's, and the command sees the end of its own. On a terminal `escape`
    lets the person leave a session that hangs.
    Raises LostConnection when the end is not known.
    """
    if not stdin or sys.stdin is None or sys.stdin.closed:
        stream.close_stdin()
        return _show(stream)
    source = sys.stdin.fileno()
    wake, stop = os.pipe()
    keys = escape if raw and os.isatty(source) else None
    typing = threading.Thread(target=_send, args=(stream, source, wake, keys), daemon=True)
    try:
        with _raw(source) if raw else contextlib.nullcontext(), _sizes(stream):
            typing.start()
            return _show(stream, keys)
    finally:
        os.close(stop)  # wakes the thread, which must not eat what is typed next
        typing.join()
        os.close(wake)


def _show(stream: Stream, keys: Escape | None = None) -> int:
    sys.stdout.flush()
    while (piece := stream.read(timeout=_TICK)) != b"":
        if keys and keys.left:
            raise LostConnection("you left with ~.")
        _write(sys.stderr, stream.read_error())
        _write(sys.stdout, piece or b"")
    status = stream.status()
    while said := stream.read_error():
        _write(sys.stderr, said)
    if status is None:
        raise LostConnection("the connection went, and how it ended is not known")
    return status


def _write(to: TextIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(to.fileno(), view) :]


def _send(stream: Stream, stdin: int, wake: int, keys: Escape | None) -> None:
    with contextlib.suppress(LostConnection, OSError):
        while wake not in ready({stdin, wake}):
            piece = os.read(stdin, 1 << 16)
            if not piece:
                stream.close_stdin()
                return
            typed = keys.through(piece) if keys else piece
            if keys and keys.left:
                return
            stream.write(typed)


@contextlib.contextmanager
def _raw(stdin: int) -> Iterator[None]:
    """Put a terminal into raw mode, and back whatever happens; anything else is left as it is."""
    if not os.isatty(stdin):
        yield
        return
    before = termios.tcgetattr(stdin)
    try:
        tty.setraw(stdin, termios.TCSADRAIN)  # the default throws away what was typed ahead
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
