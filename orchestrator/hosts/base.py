"""The narrow interface through which everything reaches a machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Protocol

from orchestrator.errors import HostError
from orchestrator.hosts.command import Command, Script
from orchestrator.inventory import Host

DEADLINE = 60.0
"""Seconds a question may take before the host counts as hanging."""


@dataclass(frozen=True)
class Result:
    """What a script said: its exit status, its stdout (between the marks) and its stderr, as bytes."""

    status: int
    out: bytes
    err: bytes
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """Stdout as text; bytes that are no UTF-8 become U+FFFD."""
        return self.out.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The first line that says what is wrong: of stderr, else of stdout (where nvidia-smi complains)."""
        for data in (self.err, self.out):
            for line in data.decode("utf-8", "replace").splitlines():
                if line.strip():
                    return line.strip()
        return f"exit status {self.status}"


@dataclass(frozen=True)
class Terminal:
    """A pseudo-terminal to ask for: TERM and the size in characters."""

    kind: str = "xterm"
    columns: int = 80
    rows: int = 24


class Stream(Protocol):
    """A running remote command with raw bytes in and out. Use as a context manager; closing ends it."""

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        """Return the next bytes of stdout, b"" at the end, or None when `timeout` seconds passed with none.

        With a `timeout`, None comes early when much of stderr waits: who polls both loses nothing.
        Raises LostConnection when the connection goes before the end.
        """

    def read_error(self) -> bytes:
        """Return what stderr has held so far and was not yet returned (at most the last 64 KiB)."""

    def write(self, data: bytes) -> None:
        """Send all of `data` to the command's stdin."""

    def close_stdin(self) -> None:
        """Send the end of stdin."""

    def resize(self, columns: int, rows: int) -> None:
        """Tell the remote terminal its new size."""

    def status(self) -> int | None:
        """Return the exit status once the command has ended (128+N for signal N); None when it is unknown."""

    def close(self) -> None:
        """End the stream; the remote command sees its stdin closed."""

    def __enter__(self) -> Stream: ...
    def __exit__(self, *exc: object) -> None: ...


class Tunnel(Protocol):
    """A byte stream to a TCP port as seen from the host: what paramiko and socketserver take for a socket."""

    def recv(self, size: int) -> bytes:  # noqa: D102
        ...

    def send(self, data: bytes) -> int:  # noqa: D102
        ...

    def close(self) -> None:  # noqa: D102
        ...

    def settimeout(self, seconds: float | None) -> None:  # noqa: D102
        ...


class Machine(ABC):
    """A machine that is connected. One connection; `run` is one exec on it."""

    host: Host

    @abstractmethod
    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        """Run a script through `sh -s` and return what it said; a status other than 0 is no error.

        Raises LostConnection when the end mark is missing, HostError after `deadline` seconds.
        """

    @abstractmethod
    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        """Start a command with raw stdin and stdout."""

    @abstractmethod
    def put(self, data: bytes | BinaryIO, path: str, *, mode: int = 0o600) -> None:
        """Write a file whole or not at all (a part file, then a rename). `~/` is the account's home."""

    @abstractmethod
    def get(self, path: str, into: BinaryIO) -> None:
        """Copy a file's bytes into `into`. Raises HostError when it can't be read."""

    @abstractmethod
    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        """Open a TCP connection from the host to `address:port`. Raises HostError when it is refused."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. Never raises."""

    def ask(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        """Run a script that must succeed. Raises HostError with its complaint when it does not."""
        result = self.run(script, deadline=deadline)
        if result.status:
            raise HostError(f"{script.name}: {result.complaint}", where=self.host.name)
        return result

    @property
    def client_keys(self) -> tuple[str, ...]:
        """Public keys (authorized_keys lines) that opened this connection; empty where none did."""
        return ()

    @property
    def private_key(self) -> Any:
        """The key that opened this connection, as paramiko holds it; None where none did."""
        return None

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
