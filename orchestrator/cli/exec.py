"""orch exec: run a command in the container of a host, or of a run."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App, inventory_options, pass_app

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
    from orchestrator.hosts.base import Stream, Terminal
    from orchestrator.hosts.command import Command


@click.command("exec", context_settings={"allow_interspersed_args": False})
@inventory_options
@click.option("--hosts", "host", metavar="HOST", help="The host, where it isn't the first word.")
@click.option("--on-host", is_flag=True, help="On the host itself, not in the container.")
@click.option("-i", "--stdin", is_flag=True, help="Pass stdin on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="HOST|RUN [--] CMD...")
@pass_app
def command(app: App, host: str | None, on_host: bool, stdin: bool, tty: bool, words: tuple[str, ...]) -> int:
    """Run a command in the container, or in a run's directory with its GPUs; ends with its status.

    \b
      orch exec gpu01 -- nvidia-smi
      orch exec nightly -- ls -l checkpoints
      orch exec -it gpu01 -- python3
    """
    from orchestrator.cli.target import find_target
    from orchestrator.errors import UsageError

    if host is None and words and words[0] != "--":
        host, words = words[0], words[1:]
    if words[:1] == ("--",):
        words = words[1:]
    if not words:
        raise UsageError("no command", hint="As in: orch exec gpu01 -- nvidia-smi")
    target = find_target(app, host, on_host=on_host)
    line = entered(target, words, stdin=stdin or tty, tty=tty)
    with target.machine.stream(line, terminal=terminal() if tty else None) as stream:
        if tty:
            from orchestrator.hosts.terminal import interact

            return interact(stream)
        return pump(stream, stdin=stdin)


def entered(target: Target, words: tuple[str, ...], *, stdin: bool, tty: bool) -> Command:
    """Return the command line for the host that runs `words` where the target is."""
    from orchestrator.container.identity import on_host
    from orchestrator.hosts.command import Command, Raw

    command = Command.of("env", *(f"{k}={v}" for k, v in target.env.items()), *words) if target.env else None
    command = command or Command(words)
    if target.environment:
        return target.environment.enter(command, workdir=target.folder, stdin=stdin, tty=tty)
    folder = on_host(target.folder or "~")
    return Command((Raw("cd"), folder, Raw("&& exec"), *command.words))


def terminal() -> Terminal:
    """Return the local terminal's kind and size."""
    from orchestrator.hosts.base import Terminal

    size = shutil.get_terminal_size()
    return Terminal(os.environ.get("TERM", "xterm"), size.columns, size.lines)


def pump(stream: Stream, *, stdin: bool) -> int:
    """Pass a command's bytes on, unchanged, until it ends; return its exit status."""
    if stdin:
        threading.Thread(target=_feed, args=(stream,), daemon=True).start()
    else:
        stream.close_stdin()
    while True:
        data = stream.read(timeout=0.05)
        _write(2, stream.read_error())
        if data == b"":
            break
        if data:
            _write(1, data)
    status = stream.status()
    _write(2, stream.read_error())
    return 1 if status is None else status


def _feed(stream: Stream) -> None:
    try:
        while data := os.read(0, 65536):
            stream.write(data)
        stream.close_stdin()
    except OSError:
        return  # the command has ended, or there is no stdin: either is told elsewhere


def _write(descriptor: int, data: bytes) -> None:
    sys.stdout.flush()
    while data:
        data = data[os.write(descriptor, data) :]
