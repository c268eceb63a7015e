"""orch init: write hosts.ini and .orchignore, and prove the hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import inventory_options, pass_app
from orchestrator.errors import OrchError

if TYPE_CHECKING:
    from orchestrator.inventory import Host, Inventory


@click.command("init")
@inventory_options
@click.argument("names", nargs=-1, metavar="[HOST]...", shell_complete=completing.hosts)
@pass_app
def command(app: App, names: tuple[str, ...]) -> int:
    """Write hosts.ini and .orchignore into the current folder, and prove the hosts.

    HOST is what `ssh HOST` takes, or USER@HOST. What is there already is left as it is.

    \b
      orch init gpu01 ana@gpu02
      orch init gpu[01-04]
    """
    from orchestrator.inventory import load

    wanted = load([], environ=app.environ).select(names).hosts if names else ()
    path = _inventory_file(app)
    if path.exists():
        inventory = app.inventory
        new = _lay_out(app, path, inventory, wanted)
        hosts = [*(new or ()), *_known(inventory, wanted)] if wanted else list(inventory.hosts)
    else:
        _write(app, path, _hosts_ini(wanted, _ssh_names(Path.home() / ".ssh/config")))
        hosts = list(_known(app.inventory, wanted))
    if not (app.cwd / ".orchignore").exists():
        _write(app, app.cwd / ".orchignore", _ORCHIGNORE)
    if not hosts:
        app.say(f"next:   name your hosts in {path.name}, then: orch doctor")
        return 0
    return _prove(app, hosts)


def _inventory_file(app: App) -> Path:
    """Return the file that counts here, else where it will be."""
    from orchestrator.inventory import config_folder, find_files

    own = config_folder(app.environ)
    here = [path for path in app.files or find_files(app.cwd, app.environ) if path.parent != own]
    return here[-1] if here else app.cwd / "hosts.ini"


def _known(inventory: Inventory, wanted: Sequence[Host]) -> list[Host]:
    names = {host.address for host in wanted}
    return [host for host in inventory.hosts if host.name in names]


def _lay_out(app: App, path: Path, inventory: Inventory, wanted: Sequence[Host]) -> list[Host]:
    """Print what would be added to an inventory that is there; return those hosts."""
    from orchestrator.inventory.source import shown

    there = {host.name for host in inventory.hosts}
    new = [host for host in wanted if host.address not in there]
    app.say(f"kept    {shown(path)}" + (", to which you may add:" if new else ""))
    for host in new:
        click.echo(_line(host))
    return [inventory.stranger(host.name) for host in new]


def _line(host: Host) -> str:
    return f"{host.address} ansible_user={host.user}" if host.user else host.address


def _write(app: App, path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OrchError(f"can't write {path}: {error.strerror}") from error
    app.say(f"wrote   {path.name}")


def _hosts_ini(hosts: Sequence[Host], candidates: Sequence[str]) -> str:
    lines = [_line(host) for host in hosts]
    if not lines and candidates:
        lines = ["# From ~/.ssh/config. Take the # away from those that orch shall use.", *candidates]
    return _HOSTS_INI.format(hosts="\n".join(lines or ["# gpu01"]))


def _ssh_names(config: Path) -> list[str]:
    """Return the plain names of a person's ssh config, as comment lines to choose from."""
    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    words = re.findall(r"^\s*Host[ \t]+(.+)$", text, re.MULTILINE | re.IGNORECASE)
    names = [name for line in words for name in line.split() if re.fullmatch(r"[\w.-]+", name)]
    return [f"# {name}" for name in dict.fromkeys(names)]


def _prove(app: App, hosts: Sequence[Host]) -> int:
    from orchestrator.cli.doctor import examine, listing
    from orchestrator.cli.folding import named

    diagnoses, code = examine(app, hosts)
    for line in listing(diagnoses, everything=app.verbose > 0):
        click.echo(line)
    well = [d.host for d in diagnoses if d.well]
    if well:
        app.say(f"next:   orch deploy --hosts {named(well)}      orch gpu-status")
    return code


_HOSTS_INI = """\
# The machines that orch trains on; a name is what `ssh NAME` takes. `orch hosts -v` shows what counts.

{hosts}

[all:vars]
# tensorflow = 2.9.3
# requirements = albumentations, transformers<5, wandb
# volumes = /data/datasets:/datasets:ro
# shm_size = 16g
"""

_ORCHIGNORE = """\
# What `orch train` leaves here besides .git, virtual environments, caches and what .gitignore names; the form
# is that of .gitignore. Data belongs into a volume of the host (volumes, in hosts.ini).
/wandb/
/mlruns/
/checkpoints/
.DS_Store
"""
