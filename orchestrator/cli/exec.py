"""orch exec: run a command in the container of a host, or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App, inventory_options, pass_app

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
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
        what = f"no command for '{host}'" if host else "no command"
        raise UsageError(what, hint="Host first, then the command: orch exec gpu01 -- nvidia-smi")
    target = find_target(app, host, on_host=on_host)
    line = entered(target, words, stdin=stdin or tty, tty=tty)
    from orchestrator.hosts.terminal import interact, local_terminal

    terminal = local_terminal() if tty else None
    with target.ending(), target.machine.stream(line, terminal=terminal) as stream:
        return interact(stream, stdin=stdin or tty, raw=tty)


def entered(target: Target, words: tuple[str, ...], *, stdin: bool, tty: bool) -> Command:
    """Return the command line for the host that runs `words` where the target is."""
    from orchestrator.hosts.command import Command, Raw, on_host

    command = Command.of("env", *(f"{k}={v}" for k, v in target.variables.items()), *words)
    if target.environment:
        return target.environment.enter(command, workdir=target.folder, stdin=stdin, tty=tty)
    folder = on_host(target.folder or "~")
    return Command((Raw("cd"), folder, Raw("&& exec"), *command.words))
