"""One command on several hosts at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.voices import Voices
from orchestrator.errors import FAILED, OK, LostConnection

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
    from orchestrator.hosts.base import Machine, Stream
    from orchestrator.inventory import Host

_TICK = 0.5  # seconds after which both streams are looked at


def run_on_all(app: App, hosts: Sequence[Host], words: tuple[str, ...], *, on_host: bool) -> int:
    """Run a command on every host, show what they say, and return 0 where it was 0 on all of them."""
    from orchestrator.cli.target import entered, host_target

    begun: list[Target] = []

    def work(machine: Machine) -> None:
        target = host_target(app, machine.host, on_host=on_host)
        begun.append(target)
        with target.ending(), machine.stream(entered(target, words)) as stream:
            stream.close_stdin()
            _hear(stream, machine.host.name, voices)

    with ExitStack() as files:
        voices = Voices([host.name for host in hosts], files)
        try:
            outcomes = app.each(hosts, work, meanwhile=voices.show_in_time)
        except (KeyboardInterrupt, SystemExit, BrokenPipeError):
            app.each([target.host for target in begun], lambda machine: _end(begun, machine))
            raise
        voices.show()
    return app.close(outcomes) or (FAILED if voices.failed else OK)


def _end(begun: Sequence[Target], machine: Machine) -> None:
    for target in begun:
        if target.host.name == machine.host.name:
            target.end()


def _hear(stream: Stream, host: str, voices: Voices) -> None:
    while (piece := stream.read(timeout=_TICK)) != b"":
        voices.add(host, piece or b"", stream.read_error())
    status = stream.status()
    while said := stream.read_error():
        voices.add(host, err=said)
    if status is None:
        raise LostConnection("the connection went, and how it ended is not known")
    voices.end(host, status)
