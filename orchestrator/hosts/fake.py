"""A machine that only pretends: canned answers, and a record of everything that was asked of it.

    machine = FakeMachine("gpu01")
    machine.answer("launch", out="ok\n")                       # by the script's name
    machine.answer(re.compile("docker ps"), status=1, err="permission denied")   # by its text
    machine.answer_facts(gpu="0, A100\n", docker=("no docker", 127))             # a question's sections
    machine.ran, machine.streamed, machine.files               # what happened

The answer that was given last and matches wins. For tests and for showing what would be done.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from orchestrator.errors import HostError
from orchestrator.hosts import trace
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.command import Command, Script
from orchestrator.inventory import Host

Asked = Command | Script
Reply = Result | Exception | Callable[[Asked], Result]


def text_of(asked: Asked) -> str:
    """Return the shell text of a command or script."""
    return asked.text if isinstance(asked, Script) else asked.shell()


@dataclass
class FakeStream:
    """A stream whose stdout is known; `written` is what came in on stdin."""

    result: Result
    terminal: Terminal | None = None
    written: bytearray = field(default_factory=bytearray)
    stdin_closed: bool = False
    closed: bool = False
    sizes: list[tuple[int, int]] = field(default_factory=list)
    _at: int = 0
    _told: bool = False

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        """Return the next bytes; b"" at the end."""
        piece = self.result.out[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def read_error(self) -> bytes:
        """Return stderr, once."""
        said, self._told = b"" if self._told else self.result.err, True
        return said

    def write(self, data: bytes) -> None:
        """Take stdin."""
        self.written += data

    def close_stdin(self) -> None:
        """Note the end of stdin."""
        self.stdin_closed = True

    def resize(self, columns: int, rows: int) -> None:
        """Note the size."""
        self.sizes.append((columns, rows))

    def status(self) -> int | None:
        """Return the status that was given."""
        return self.result.status

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class FakeMachine(Machine):
    """Answers what it was told to answer; whatever else it is asked is an AssertionError that names it."""

    def __init__(self, host: Host | str = "gpu01", *, otherwise: Result | None = None) -> None:
        self.host = Host(host, host) if isinstance(host, str) else host
        self._otherwise = otherwise
        self._answers: list[tuple[str | re.Pattern[str], Reply]] = []
        self.ran: list[Script] = []
        self.streamed: list[Asked] = []
        self.streams: list[FakeStream] = []
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.tunnels: dict[int, Callable[[], Tunnel]] = {}
        self.keys: tuple[str, ...] = ()
        self.closed = False

    def answer(
        self,
        to: str | re.Pattern[str],
        reply: Reply | None = None,
        *,
        out: str | bytes = b"",
        err: str | bytes = b"",
        status: int = 0,
    ) -> None:
        """Answer a script of this name, or a command or script whose text matches; an exception is raised."""
        self._answers.append((to, reply or Result(status, _bytes(out), _bytes(err))))

    def answer_facts(self, **facts: str | tuple[str, int]) -> None:
        """Answer questions: each fact's name with its text, or its text and exit status."""

        def reply(asked: Asked) -> Result:
            mark = re.findall(r"orch-fact-[0-9a-f]+", text_of(asked))[0]
            out = ""
            for name in str(getattr(asked, "name", "")).split("+"):
                text, status = _section(facts[name]) if name in facts else ("", 127)
                out += f"{mark} begin {name}\n{text}\n{mark} end {status}\n"
            return Result(0, out.encode(), b"")

        self.answer(re.compile(r"orch-fact-[0-9a-f]+"), reply)

    def _reply(self, asked: Asked) -> Result:
        name, text = getattr(asked, "name", None), text_of(asked)
        for to, reply in reversed(self._answers):
            if to == name if isinstance(to, str) else to.search(text):
                if isinstance(reply, Exception):
                    raise reply
                return reply if isinstance(reply, Result) else reply(asked)
        if self._otherwise is None:
            raise AssertionError(f"{self.host.name} was asked what it has no answer to: {name or ''}\n{text}")
        return self._otherwise

    @trace.run
    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        """Note the script and give its answer."""
        self.ran.append(script)
        return self._reply(script)

    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        """Note the command and stream its answer."""
        self.streamed.append(command)
        self.streams.append(FakeStream(self._reply(command), terminal))
        return trace.stream(self.host.name, command, self.streams[-1])

    def put(self, data: bytes | BinaryIO, path: str, *, mode: int = 0o600) -> None:
        """Keep the bytes in `files`."""
        self.files[path] = data if isinstance(data, bytes) else data.read()
        self.modes[path] = mode

    def get(self, path: str, into: BinaryIO) -> None:
        """Copy from `files`."""
        if path not in self.files:
            raise HostError(f"{path} can't be read: no such file or directory", where=self.host.name)
        into.write(self.files[path])

    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        """Open what `tunnels` has for the port."""
        if port not in self.tunnels:
            raise HostError(f"nothing answers at {address}:{port} there", where=self.host.name)
        return self.tunnels[port]()

    @property
    def client_keys(self) -> tuple[str, ...]:
        """`keys`."""
        return self.keys

    def close(self) -> None:
        """Note it."""
        self.closed = True


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _section(fact: str | tuple[str, int]) -> tuple[str, int]:
    return (fact, 0) if isinstance(fact, str) else fact
