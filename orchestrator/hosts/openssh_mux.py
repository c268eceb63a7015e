"""A live ssh master asked for sessions and forwards, without a program for each.

It is what `ssh -S PATH` says to the master: OpenSSH's PROTOCOL.mux, version 4 (every OpenSSH since 5.4, of
2010). The exit status comes as a message of its own, so that status 255 and a lost connection differ.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from collections.abc import Sequence

from orchestrator.hosts.base import Terminal
from orchestrator.hosts.limit import Limit

_VERSION = 4
_HELLO = 0x00000001
_NEW_SESSION, _ALIVE_CHECK, _TERMINATE, _NEW_STDIO_FWD = 0x10000002, 0x10000004, 0x10000005, 0x10000008
_OK, _PERMISSION_DENIED, _FAILURE = 0x80000001, 0x80000002, 0x80000003
_EXIT_MESSAGE, _ALIVE, _SESSION_OPENED, _TTY_ALLOC_FAIL = 0x80000004, 0x80000005, 0x80000006, 0x80000008
_NO_ESCAPE = 0xFFFFFFFF
_LARGEST = 1 << 18  # bytes of a message, as ssh allows


class Declined(Exception):
    """The master, or the host behind it, does not do this; the text is the master's."""


class Gone(Exception):
    """The master does not exist any more, or what listens there is none."""


class Control:
    """A conversation with a master. Closing it ends the session or the forward that it asked for."""

    def __init__(self, path: str, limit: Limit) -> None:
        """Connect and greet. Raises Gone, or TimeoutError when nothing is said within the limit."""
        self._read = bytearray()
        self._ended = False
        self.exit_status: int | None = None
        self.no_terminal = False  # the host was asked for one, and gave none
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._bounded(limit)
            self._socket.connect(path)
            self._send(_HELLO, _VERSION)
            if _numbers(self._expect(_HELLO, limit))[:1] != (_VERSION,):
                raise Gone("what listens there is no ssh that we know")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise Gone(str(error)) from error
            raise

    def session(self, line: bytes, fds: Sequence[int], terminal: Terminal | None, limit: Limit) -> None:
        """Start a command on stdin, stdout and stderr. Raises Declined, Gone, TimeoutError."""
        kind = terminal.kind.encode() if terminal else b""
        flags = (int(terminal is not None), 0, 0, 0)  # a terminal; no X11, no agent, no subsystem
        self._ask(limit, fds, _NEW_SESSION, 0, b"", *flags, _NO_ESCAPE, kind, line)

    def forward(self, address: str, port: int, fds: Sequence[int], limit: Limit) -> None:
        """Join stdin and stdout to `address:port` as the host sees it. Raises as `session`."""
        self._ask(limit, fds, _NEW_STDIO_FWD, 0, b"", address.encode(), port)

    def _ask(self, limit: Limit, fds: Sequence[int], *fields: int | bytes) -> None:
        try:
            self._bounded(limit)
            self._send(*fields)
            for number in fds:  # each with a byte of its own, as ssh reads them
                socket.send_fds(self._socket, [b"\0"], [number])
        except TimeoutError:
            raise
        except OSError as error:
            raise Gone(str(error)) from error
        self._expect(_SESSION_OPENED, limit)

    def pid(self, limit: Limit) -> int:
        """Return the master's process id. Raises Gone, TimeoutError."""
        self._bounded(limit)
        self._send(_ALIVE_CHECK, 0)
        return _numbers(self._expect(_ALIVE, limit))[1]

    def terminate(self, limit: Limit) -> None:
        """End the master. Raises Gone, TimeoutError."""
        self._bounded(limit)
        self._send(_TERMINATE, 0)
        self._expect(_OK, limit)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def listen(self, seconds: float) -> bool:
        """Take what comes within the time; True: nothing more will come, `exit_status` is what is known."""
        until = time.monotonic() + seconds
        try:
            while not self._ended and self.exit_status is None:
                self._socket.settimeout(max(until - time.monotonic(), 0.001))
                kind, body = self._message()
                if kind == _EXIT_MESSAGE:
                    self.exit_status = _numbers(body)[1]
                self.no_terminal = self.no_terminal or kind == _TTY_ALLOC_FAIL
                if time.monotonic() > until:
                    break
        except (TimeoutError, BlockingIOError):
            return False
        except Gone:
            self._ended = True
        return self._ended or self.exit_status is not None

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()

    def _bounded(self, limit: Limit) -> None:
        self._socket.settimeout(max(limit.left, 0.01))

    def _send(self, *fields: int | bytes) -> None:
        packed = b"".join(_packed(field) for field in fields)
        self._socket.sendall(_packed(packed))

    def _expect(self, wanted: int, limit: Limit) -> bytes:
        while True:
            self._bounded(limit)
            kind, body = self._message()
            if kind in (_FAILURE, _PERMISSION_DENIED):
                raise Declined(body[8:].decode("utf-8", "replace"))  # after request id and length
            if kind == wanted:
                return body

    def _message(self) -> tuple[int, bytes]:
        """Return the next message's type and body. A timeout loses nothing of what has come."""
        self._fill(4)
        size = 4 + _numbers(self._read[:4])[0]
        if not 8 <= size <= _LARGEST:
            raise Gone("what listens there is no ssh")
        self._fill(size)
        message = bytes(self._read[4:size])
        del self._read[:size]
        return _numbers(message)[0], message[4:]

    def _fill(self, size: int) -> None:
        while len(self._read) < size:
            try:
                piece = self._socket.recv(size - len(self._read))
            except ConnectionError as error:
                raise Gone(str(error)) from error
            if not piece:
                raise Gone("it ended")
            self._read += piece


def _packed(field: int | bytes) -> bytes:
    if isinstance(field, int):
        return struct.pack(">I", field)
    return struct.pack(">I", len(field)) + field


def _numbers(data: bytes | bytearray) -> tuple[int, ...]:
    """Return the leading 32-bit numbers of a message."""
    return struct.unpack(f">{len(data) // 4}I", data[: len(data) // 4 * 4])


def is_socket_there(path: str) -> bool:
    """Whether a socket of ours lies at `path`; costs one look at the disk."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


def is_alive(path: str, limit: Limit) -> bool:
    """Whether a master listens at `path` and answers within the limit."""
    if not is_socket_there(path):
        return False
    try:
        control = Control(path, limit)
    except (Gone, TimeoutError, Declined):
        return False
    control.close()
    return True
