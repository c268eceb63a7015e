"""orch exec: run a command in the container of a host, or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import host_options, pass_app
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
    from orchestrator.hosts.command import Command

_NOT_FOUND = 127  # of env, and of shells


@click.command("exec", context_settings={"allow_interspersed_args": False})
@host_options
@click.option("--on-host", is_flag=True, help="On the host itself, not in the container.")
@click.option("-i", "--stdin", is_flag=True, help="Pass stdin on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="HOST|RUN [--] CMD...",
    shell_complete=completing.hosts_or_runs,
)
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    on_host: bool,
    stdin: bool,
    tty: bool,
    words: tuple[str, ...],
) -> int:
    """Run a command in the container, or in a run's directory with its GPUs; ends with its status.

    Several hosts run it at once: a line comes two seconds after it is said at most, behind its host's name;
    what many hosts say together comes once, behind all their names. RUN/HOST is a run's worker on one of
    its hosts.

    \b
      orch exec gpu01 -- nvidia-smi
      orch exec nightly -- ls -l checkpoints
      orch exec -it gpu01 -- python3
      orch exec --hosts lab --on-host -- uptime
    """
    from orchestrator.cli.many import run_on_all
    from orchestrator.cli.target import entered, find_target, host_target, is_host
    from orchestrator.cli.waiting import WAITING

    word, words = _parted(hosts, words)
    chosen = app.changed([word] if word else hosts, exclude) if not word or is_host(app, word) else ()
    if len(chosen) > 1:
        if stdin or tty:
            raise UsageError(f"-i and -t take one host, not {len(chosen)}", hint="Name one.")
        return run_on_all(app, chosen, words, on_host=on_host)
    if chosen:
        with WAITING.on([chosen[0].name]):
            target = host_target(app, chosen[0], on_host=on_host)
    else:
        target = find_target(app, word, on_host=on_host)
    status = _run(app, target, entered(target, words, stdin=stdin or tty, tty=tty), stdin or tty, tty)
    if status == _NOT_FOUND and len(words) == 1 and " " in words[0]:
        line = f"orch ssh{' --on-host' * on_host} {word or target.host.name} -- LINE"
        app.say(f"next:   {line}      (exec has no shell)")
    return status


def _parted(hosts: tuple[str, ...], words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Part the words into the host or run, where it isn't an option, and the command."""
    word = None
    if not hosts and words and words[0] != "--":
        word, words = words[0], words[1:]
    if words[:1] == ("--",):
        words = words[1:]
    if words[:1] and words[0].startswith("-"):
        hint = f"Options stand before the host: orch exec {words[0]} {word or ''} -- CMD"
        raise UsageError(f"no command '{words[0]}'", hint=hint)
    if not words:
        what = f"no command for '{word or ','.join(hosts)}'" if word or hosts else "no command"
        raise UsageError(what, hint="Host first, then the command: orch exec gpu01 -- nvidia-smi")
    return word, words


def _run(app: App, target: Target, line: Command, stdin: bool, tty: bool) -> int:
    from orchestrator.hosts.terminal import interact, local_terminal

    terminal = local_terminal() if tty else None
    with target.ending(), target.machine.stream(line, terminal=terminal) as stream:
        status = interact(stream, stdin=stdin, raw=tty)
    if status and not tty:
        app.say(f"orch: {target.host.name}: exit status {status} is the command's")
    return status
