"""This machine itself (`ansible_connection = local`): the same framing and streams, by subprocess."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from orchestrator.errors import HostError
from orchestrator.hosts import files, trace
from orchestrator.hosts.answer import Answer
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.command import Command, Script, framed, lasting, on_path
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.pipes import Ends, PipeStream, pipes, pseudo_terminal, talk
from orchestrator.inventory import Host

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
            ends = pipes()
            closed.callback(ends.close)
            process = _started(["/bin/sh", "-s"], ends)
            closed.callback(_end, process, signal.SIGKILL)
            self._running.add(process)
            closed.callback(self._running.discard, process)
            talk(ends, frame.stdin, answer, limit)
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


def _started(
    words: Sequence[str], ends: Ends, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process, a group of its own, on these ends."""
    stdin, out, err = ends.theirs
    try:
        return subprocess.Popen(
            words, stdin=stdin, stdout=out, stderr=err, env=environ, start_new_session=True
        )
    finally:
        ends.handed_over()


def _end(process: subprocess.Popen[bytes], by: signal.Signals) -> None:
    """End a process that is still there, with its group."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, by)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class LocalStream(PipeStream):
    """A `Stream` on a local process, with pipes or a pseudo-terminal."""

    def __init__(self, text: str, host: str, terminal: Terminal | None) -> None:
        super().__init__(pseudo_terminal(terminal) if terminal else pipes(), host)
        words, environ = ["/bin/sh", "-c", text], None
        self._on_terminal = terminal is not None
        if terminal:  # the leader of a new session that opens a terminal gets it as its controlling one
            theirs = os.ttyname(self._ends.theirs[0])
            words = ["/bin/sh", "-c", f'exec <"$1" >"$1" 2>&1\n{text}', "sh", theirs]
            environ = {**os.environ, "TERM": terminal.kind}
        self.process = _started(words, self._ends, environ)

    def status(self) -> int | None:
        """Return the exit status once stdout has ended; 128+N for signal N."""
        try:
            status = self.process.wait(DEADLINE if self._over else 0)
        except subprocess.TimeoutExpired:
            return None
        return 128 - status if status < 0 else status

    def close(self) -> None:
        """End the command if it has not ended."""
        _end(self.process, signal.SIGHUP if self._on_terminal else signal.SIGTERM)
        self._ends.close()

    def __enter__(self) -> LocalStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
