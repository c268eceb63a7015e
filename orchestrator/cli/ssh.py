"""orch ssh: a shell in the container of a host, or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App, inventory_options, pass_app

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
    from orchestrator.container.engine import Environment
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.command import Command


@click.command("ssh", context_settings={"allow_interspersed_args": False})
@inventory_options
@click.option("--on-host", is_flag=True, help="On the host itself, not in the container.")
@click.argument("word", required=False, metavar="HOST|RUN")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@pass_app
def command(app: App, on_host: bool, word: str | None, words: tuple[str, ...]) -> int:
    """Open a shell in the container through its own sshd, or run CMD there.

    \b
      orch ssh gpu01
      orch ssh nightly
    """
    import sys

    from orchestrator.cli.target import find_target
    from orchestrator.hosts.terminal import interact, local_terminal

    target = find_target(app, word, on_host=on_host)
    tty = not words and sys.stdin.isatty()
    machine, line = _inside(target, words[1:] if words[:1] == ("--",) else words)
    try:
        with target.ending(), machine.stream(line, terminal=local_terminal() if tty else None) as stream:
            return interact(stream, raw=tty)
    finally:
        if machine is not target.machine:
            machine.close()


def _inside(target: Target, words: tuple[str, ...]) -> tuple[Machine, Command]:
    """Return the machine to open the shell on, and the line that opens it."""
    from orchestrator.cli.exec import entered
    from orchestrator.errors import HostError
    from orchestrator.hosts.command import Command, Raw

    shell = Command((Raw('exec "${SHELL:-/bin/sh}" -l'),))
    environment = target.environment
    if environment is None or not environment.in_container:
        return target.machine, entered(
            target, words or ("/bin/sh", "-c", shell.shell()), stdin=True, tty=True
        )
    folder = target.folder or environment.workspace
    exports = (Raw(f"export {k}=" + Command.of(v).shell() + " &&") for k, v in target.variables.items())
    line = Command((*exports, Raw("cd"), folder, Raw("&&"), *(words or shell.words)))
    try:
        return _hop(target.machine, environment), line
    except HostError:  # the host's sshd forbids forwarding, or the container's is gone: by the engine
        return target.machine, entered(target, words or ("/bin/sh", "-l"), stdin=True, tty=True)


def _hop(machine: Machine, environment: Environment) -> Machine:
    from orchestrator.errors import HostError
    from orchestrator.hosts.ssh import hop

    if environment.port is None:
        raise HostError("the container has no sshd", where=machine.host.name)
    return hop(machine, environment.port, user=environment.user, host_keys=environment.host_keys)
