"""One command on several hosts at once: what they say is shown when all have ended, the same only once."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, TextIO

from orchestrator.cli.app import App
from orchestrator.errors import FAILED, OK, LostConnection

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
    from orchestrator.hosts.base import Machine, Stream
    from orchestrator.inventory import Host

_IN_MEMORY = 1 << 20  # bytes of each stream of each host; more goes to a file
_TICK = 1.0  # seconds after which both streams are looked at


class Held:
    """The bytes of one stream, and what tells them from others."""

    def __init__(self, files: ExitStack) -> None:
        self._bytes = files.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        self._digest = sha256()

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._bytes.write(piece)
        self._digest.update(piece)

    @property
    def same_as(self) -> bytes:
        """Equal where the bytes are."""
        return self._digest.digest()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, each with its end."""
        self._bytes.seek(0)
        for line in self._bytes:
            yield line if line.endswith(b"\n") else line + b"\n"


@dataclass(frozen=True)
class Said:
    """What a command said on one host, and its exit status."""

    out: Held
    err: Held
    status: int

    @property
    def same_as(self) -> tuple[bytes, bytes, int]:
        """Equal where all of it is."""
        return self.out.same_as, self.err.same_as, self.status


def run_on_all(app: App, hosts: Sequence[Host], words: tuple[str, ...], *, on_host: bool) -> int:
    """Run a command on every host, show what they said, and return 0 where it was 0 on all of them."""
    from orchestrator.cli.target import entered, host_target

    begun: list[Target] = []
    files = ExitStack()

    def work(machine: Machine) -> Said:
        target = host_target(app, machine.host, on_host=on_host)
        begun.append(target)
        with target.ending(), machine.stream(entered(target, words)) as stream:
            stream.close_stdin()
            return _heard(stream, files)

    with files:
        try:
            outcomes = app.each(hosts, work)
        except (KeyboardInterrupt, SystemExit):
            app.each([target.host for target in begun], lambda machine: _end(begun, machine))
            raise
        _show([(o.host.name, o.value) for o in outcomes if o.value])
    failed = app.close(outcomes)
    return failed or (FAILED if any(o.value and o.value.status for o in outcomes) else OK)


def _end(begun: Sequence[Target], machine: Machine) -> None:
    for target in begun:
        if target.host.name == machine.host.name:
            target.end()


def _heard(stream: Stream, files: ExitStack) -> Said:
    out, err = Held(files), Held(files)
    while (piece := stream.read(timeout=_TICK)) != b"":
        out.add(piece or b"")
        err.add(stream.read_error())
    status = stream.status()
    while said := stream.read_error():
        err.add(said)
    if status is None:
        raise LostConnection("the connection went, and how it ended is not known")
    return Said(out, err, status)


def _show(found: Sequence[tuple[str, Said]]) -> None:
    """Print each host's lines behind its name; hosts that said the same have one name together."""
    from orchestrator.inventory.folded import folded

    groups: dict[tuple[bytes, bytes, int], list[str]] = {}
    for host, said in found:
        groups.setdefault(said.same_as, []).append(host)
    by_host = dict(found)
    for hosts in groups.values():
        said, names = by_host[hosts[0]], folded(hosts)
        _print(sys.stdout, names, said.out)
        _print(sys.stderr, names, said.err)
        if said.status:
            App.say(f"orch: {names}: exit status {said.status} is the command's")


def _print(to: TextIO, names: str, held: Held) -> None:
    to.flush()
    for line in held.lines():
        to.buffer.write(f"{names}: ".encode() + line)
    to.buffer.flush()
