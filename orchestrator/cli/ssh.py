"""orch ssh: a shell in the container of a host, or of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import inventory_options, pass_app
from orchestrator.cli.waiting import WAITING

if TYPE_CHECKING:
    from orchestrator.cli.target import Target
    from orchestrator.container.engine import Environment
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.command import Command


@click.command("ssh", context_settings={"allow_interspersed_args": False})
@inventory_options
@click.option("--on-host", is_flag=True, help="On the host itself, not in the container.")
@click.option("-t", "--tty", is_flag=True, help="Give LINE a terminal, as a shell without LINE has one.")
@click.argument("word", required=False, metavar="HOST|RUN", shell_complete=completing.hosts_or_runs)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] [LINE...]")
@pass_app
def command(app: App, on_host: bool, tty: bool, word: str | None, words: tuple[str, ...]) -> int:
    """Open a shell in the container through its own sshd, or have it run LINE, as ssh does.

    Ends with the status of the shell; ~. at the beginning of a line leaves a session that hangs. (For words
    that no shell reads: orch exec.)

    \b
      orch ssh gpu01
      orch ssh nightly
      orch ssh gpu01 -- 'ls *.h5 | wc -l'
    """
    import sys

    from orchestrator.cli.target import find_target
    from orchestrator.hosts.escape import Escape
    from orchestrator.hosts.terminal import interact, local_terminal

    target = find_target(app, word, on_host=on_host)
    line = " ".join(words[1:] if words[:1] == ("--",) else words)
    tty = tty or (not line and sys.stdin.isatty())
    with WAITING.on([target.host.name]):
        machine, command = _inside(target, line, tty)
    try:
        with target.ending(), machine.stream(command, terminal=local_terminal() if tty else None) as stream:
            return interact(stream, raw=tty, escape=Escape())
    finally:
        if machine is not target.machine:
            machine.close()


def _inside(target: Target, line: str, tty: bool) -> tuple[Machine, Command]:
    """Return the machine to open the shell on, and the command that opens it."""
    from orchestrator.cli.target import entered
    from orchestrator.errors import HostError
    from orchestrator.hosts.command import Command, Raw, quote

    environment = target.environment
    # where no container has the environment, the login files of the host would put their PATH over it
    login = "-l" if environment is None or environment.in_container else ""
    shell = 'exec "${SHELL:-$(command -v bash || echo /bin/sh)}" ' + (f"-c {quote(line)}" if line else login)
    by_engine = entered(target, ("/bin/sh", "-c", shell), stdin=True, tty=tty)
    if environment is None or environment.port is None:
        return target.machine, by_engine
    folder = target.folder or environment.workspace
    exports = (Raw(f"export {k}=" + Command.of(v).shell() + " &&") for k, v in target.variables.items())
    try:
        return _hop(target.machine, environment), Command(
            (*exports, Raw("cd"), folder, Raw("&&"), Raw(shell))
        )
    except HostError:  # the host's sshd forbids forwarding, or the container's is gone: by the engine
        return target.machine, by_engine


def _hop(machine: Machine, environment: Environment) -> Machine:
    from orchestrator.hosts.ssh import hop

    assert environment.port is not None
    return hop(machine, environment.port, user=environment.user, host_keys=environment.host_keys)
