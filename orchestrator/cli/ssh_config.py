"""orch ssh-config: stanzas for ~/.ssh/config that reach the containers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.errors import OrchError

if TYPE_CHECKING:
    from orchestrator.container.engine import Environment
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.ssh_config import Route
    from orchestrator.inventory import Host


@click.command("ssh-config")
@host_arguments
@pass_app
def command(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...]) -> int:
    """Print stanzas for ~/.ssh/config, so that ssh, scp, rsync and editors reach the containers.

    The containers' host keys are pinned in a known_hosts file of orch's own.

    \b
      orch ssh-config >> ~/.ssh/config
      ssh orch-mnist-gpu01
    """
    from orchestrator.container.ssh_stanza import host_stanza, known_hosts_lines, stanza
    from orchestrator.inventory.find import config_folder

    outcomes = app.each(app.looked_at(hosts, exclude), lambda machine: _environment(app, machine))
    known_hosts = config_folder(app.environ) / "known_hosts"
    found = [(o.host, o.value) for o in outcomes if o.value]
    _pin(known_hosts, [line for host, env in found for line in known_hosts_lines(host, env)])
    stanzas = (
        stanza(h, e, known_hosts, _route(h)) if e.in_container else host_stanza(h, e, _route(h))
        for h, e in found
    )
    click.echo("\n".join(stanzas), nl=False)
    return app.close(outcomes)


def _route(host: Host) -> Route | None:
    """Return how ssh itself reaches the host."""
    from orchestrator.hosts.ssh_config import resolve

    if host.connection == "local":
        return None
    return resolve(host.address, user=host.user, port=host.port, args=(*host.common_args, *host.extra_args))


def _environment(app: App, machine: Machine) -> Environment:
    from orchestrator.container.identity import identity_of
    from orchestrator.container.ready import environment_for

    return environment_for(machine, identity_of(machine.host, app.cwd), ready=False)


def _pin(path: Path, lines: list[str]) -> None:
    """Put the lines in the file, in place of older ones of the same names."""
    from orchestrator.files.part import write_whole

    names = {line.split(" ", 1)[0] for line in lines}
    try:
        old = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in old if line.split(" ", 1)[0] not in names]
        if not lines or [*kept, *lines] == old:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{line}\n" for line in [*kept, *lines]))
    except OSError as error:
        raise OrchError(f"{path}: {error.strerror}") from error
