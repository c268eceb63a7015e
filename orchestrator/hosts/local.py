"""This machine itself (`ansible_connection = local`): the same framing and streams, by subprocess."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from typing import BinaryIO

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts import files, trace
from orchestrator.hosts.answer import Answer
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.command import Command, Script, framed, lasting, on_path
from orchestrator.hosts.limit import Limit
from orchestrator.inventory import Host

_PIECE = 1 << 16
_ERROR_KEPT = 1 << 16  # bytes of stderr that a stream keeps
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL for a stream that is closed early
_CONNECT_SECONDS = 10.0


class LocalMachine(Machine):
    """This machine. Needs /bin/sh and nothing else."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._running: set[subprocess.Popen[bytes]] = set()

    @trace.run
    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        """Run a script through `sh -s`; after `deadline` its whole process group is killed."""
        began, limit = time.monotonic(), Limit(deadline)
        frame = framed(on_path(self.host.settings.remote_path, script))
        answer = Answer(frame)
        with contextlib.ExitStack() as closed:
            process = subprocess.Popen(
                ["/bin/sh", "-s"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            closed.callback(_end, process, signal.SIGKILL)
            self._running.add(process)
            closed.callback(self._running.discard, process)
            _talk(process, frame.stdin, answer, limit)
            if answer.whole:  # it is at its `exit`; what it left behind in its group lives on
                process.wait()
            elif limit.over:
                raise HostError(f"{script.name}: no answer within {limit.seconds:g} s", where=self.host.name)
        return answer.result(script.name, self.host.name, time.monotonic() - began)

    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        """Start a command with raw stdin and stdout."""
        script = on_path(self.host.settings.remote_path, lasting(command))
        stream = LocalStream(script.text, self.host.name, terminal)
        self._running.add(stream.process)
        return trace.stream(self.host.name, command, stream)

    def put(self, data: bytes | BinaryIO, path: str, *, mode: int = 0o600) -> None:
        """Write a file whole or not at all."""
        files.put(self, data, path, mode)

    def get(self, path: str, into: BinaryIO) -> None:
        """Copy a file's bytes."""
        files.get(self, path, into)

    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        """Open a TCP connection."""
        try:
            sock = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
        except OSError as error:
            raise HostError(f"nothing answers at {address}:{port}", where=self.host.name) from error
        sock.settimeout(None)
        return sock

    def close(self) -> None:
        """End what still runs, as a closed connection would."""
        for process in tuple(self._running):
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGTERM)
        self._running.clear()


def _talk(process: subprocess.Popen[bytes], script: bytes, answer: Answer, limit: Limit) -> None:
    """Send the script and take both streams, until the answer is whole, they end, or the time is over."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    feeds = {process.stdout.fileno(): answer.feed, process.stderr.fileno(): answer.feed_error}
    poll, stdin, rest = select.poll(), process.stdin.fileno(), memoryview(script)
    os.set_blocking(stdin, False)
    poll.register(stdin, select.POLLOUT)
    for number in feeds:
        poll.register(number, select.POLLIN)
    while feeds and not answer.whole and not limit.over:
        for number, _ in poll.poll(limit.left * 1000):
            if number == stdin:
                rest = _sent(stdin, rest)
                if not rest:
                    poll.unregister(stdin)
                    process.stdin.close()
            elif piece := os.read(number, _PIECE):
                feeds[number](piece)
            else:
                poll.unregister(number)
                del feeds[number]


def _sent(number: int, data: memoryview) -> memoryview:
    """Write what fits and return the rest; nothing is left when nobody reads it any more."""
    try:
        return data[os.write(number, data) :]
    except BlockingIOError:
        return data
    except OSError:
        return memoryview(b"")


def _end(process: subprocess.Popen[bytes], by: signal.Signals) -> None:
    """End a process that is still there, with its group, and close its pipes."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, by)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()


class LocalStream:
    """A `Stream` on a local process, with pipes or a pseudo-terminal."""

    def __init__(self, text: str, host: str, terminal: Terminal | None) -> None:
        self._host, self._error, self._master = host, bytearray(), -1
        self._over = self._polled = False
        self.process = self._on_terminal(text, terminal) if terminal else self._on_pipes(text)
        out, err = self.process.stdout, self.process.stderr
        self._out = out.fileno() if out else self._master
        self._err = err.fileno() if err else -1

    def _on_pipes(self, text: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["/bin/sh", "-c", text], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )

    def _on_terminal(self, text: str, terminal: Terminal) -> subprocess.Popen[bytes]:
        self._master, theirs = os.openpty()
        self.resize(terminal.columns, terminal.rows)
        # the leader of a new session that opens a terminal gets it as its controlling one
        words = ["/bin/sh", "-c", f'exec <"$1" >"$1" 2>&1\n{text}', "sh", os.ttyname(theirs)]
        environ = {**os.environ, "TERM": terminal.kind}
        try:
            process = subprocess.Popen(
                words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
            )
        finally:
            os.close(theirs)
        return process

    def read(self, size: int = _PIECE, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of stdout, b"" at the end, None after `timeout` seconds without any."""
        until = None if timeout is None else time.monotonic() + timeout
        self._polled = self._polled or until is not None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            crowded = self._crowded
            ready = self._ready(0 if crowded else left, error=not crowded)
            if self._out in ready:
                piece = self._take(size)
                self._over = not piece
                return piece
            if not ready:
                return None

    @property
    def _crowded(self) -> bool:
        """Whether stderr must be asked for before more of it is taken: who polls it loses none."""
        return self._polled and len(self._error) >= _ERROR_KEPT // 2

    def _ready(self, seconds: float | None, *, error: bool = True) -> set[int]:
        """Return which of stdout and stderr have something within the time; stderr is taken at once."""
        poll = select.poll()
        for number in (self._out, self._err if error else -1):
            if number >= 0:
                poll.register(number, select.POLLIN)
        ready = {number for number, _ in poll.poll(None if seconds is None else seconds * 1000)}
        if self._err in ready:
            self._take_error()
        return ready

    def _take(self, size: int) -> bytes:
        try:
            return os.read(self._out, size)
        except OSError:  # EIO: the last one who held the terminal has closed it
            return b""

    def _take_error(self) -> None:
        piece = os.read(self._err, _ERROR_KEPT // 2)
        self._error += piece
        del self._error[:-_ERROR_KEPT]
        if not piece:
            self._err = -1

    def read_error(self) -> bytes:
        """Return what stderr has held since the last call (at most its last 64 KiB)."""
        while self._err >= 0 and not self._crowded and self._err in self._ready(0):
            pass
        said = bytes(self._error)
        self._error.clear()
        return said

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises LostConnection when nobody reads it any more."""
        number = self.process.stdin.fileno() if self.process.stdin else self._master
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(number, view) :]
        except (OSError, ValueError) as error:
            raise LostConnection("the command has ended", where=self._host) from error

    def close_stdin(self) -> None:
        """Send the end of stdin."""
        if self.process.stdin:
            self.process.stdin.close()
        else:
            self.write(b"\x04")  # ^D is the end of file of a terminal

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def status(self) -> int | None:
        """Return the exit status once stdout has ended; 128+N for signal N."""
        try:
            status = self.process.wait(DEADLINE if self._over else 0)
        except subprocess.TimeoutExpired:
            return None
        return 128 - status if status < 0 else status

    def close(self) -> None:
        """End the command if it has not ended."""
        _end(self.process, signal.SIGTERM if self._master < 0 else signal.SIGHUP)
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def __enter__(self) -> LocalStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
