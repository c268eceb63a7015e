"""Calling the command line on machines that only pretend."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.cli.app import App
from orchestrator.cli.main import run
from orchestrator.hosts import masking
from orchestrator.hosts.fake import FakeMachine
from orchestrator.inventory import Host


@dataclass
class Called:
    """What one call said, and the machines it reached."""

    status: int
    out: str
    err: str
    machines: dict[str, FakeMachine] = field(default_factory=dict)


def call(
    cwd: Path,
    *words: str,
    prepare: Callable[[FakeMachine], None] = lambda machine: None,
    failing: Mapping[str, Exception] = {},
    environ: Mapping[str, str] = {},
    terminal: bool = False,
    inside: bool = False,
    again: bool = False,
) -> Called:
    """Run `orch WORDS` in `cwd`; `prepare` gives each machine its answers, `failing` hosts are away.

    `terminal`: stdout is one. `inside`: as a part of another verb. `again`: a host may be connected to again.
    """
    machines: dict[str, FakeMachine] = {}

    def connect(host: Host) -> FakeMachine:
        if host.name in failing:
            raise failing[host.name]
        assert again or host.name not in machines, "a second connection to one host"
        machines[host.name] = FakeMachine(host)
        prepare(machines[host.name])
        return machines[host.name]

    own = {"HOME": str(cwd), "XDG_CACHE_HOME": str(cwd / "cache"), "XDG_CONFIG_HOME": str(cwd / "config")}
    masking._hidden.clear()  # of other tests: a process is one call
    out, err = _Stream(terminal), _Stream(False)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(
            list(words), app=App(connect=connect, environ={**own, **environ}, cwd=cwd, inside=inside)
        )
    return Called(status, _text(out), _text(err), machines)


class _Stream(io.TextIOWrapper):
    """Where a call writes to, a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def _text(stream: io.TextIOWrapper) -> str:
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode("utf-8", "replace")
