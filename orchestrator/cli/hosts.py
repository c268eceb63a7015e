"""orch hosts: the inventory as orch sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.app import App
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.cli.table import columns, fit

if TYPE_CHECKING:
    from orchestrator.inventory import Host


@click.command("hosts")
@host_arguments
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md), with all settings.")
@pass_app
def command(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], as_json: bool) -> int:
    """Show the inventory as orch sees it; -v: each setting that isn't the default, with where it came from.

    \b
      orch hosts
      orch hosts -v gpu01
    """
    chosen = app.looked_at(hosts, exclude)
    if as_json:
        print_json("hosts", map(_json, chosen))
        return 0
    for line in _details(chosen) if app.verbose else _table(chosen):
        click.echo(line)
    return 0


def _table(hosts: Sequence[Host]) -> list[str]:
    rows = [(host.name, _address(host), host.user or "-", ", ".join(host.groups) or "-") for host in hosts]
    return columns(("NAME", "ADDRESS", "USER", "GROUPS"), rows)


def _address(host: Host) -> str:
    if host.connection == "local":
        return "this machine"
    if not host.port:
        return host.address
    return f"[{host.address}]:{host.port}" if ":" in host.address else f"{host.address}:{host.port}"


def _details(hosts: Sequence[Host]) -> list[str]:
    """Return a block per host; the columns are aligned over all of them."""
    from orchestrator.inventory.describe import described

    said = {host.name: [d for d in described(host) if d.source != "default"] for host in hosts}
    everything = [d for many in said.values() for d in many]
    name = max((len(d.name) for d in everything), default=0)
    text = max((min(len(d.text), 60) for d in everything), default=0)
    lines = []
    for host in hosts:
        groups = f"   in {', '.join(host.groups)}" if host.groups else ""
        lines.append(f"{host.name}   {_address(host)}{groups}   {host.where or 'in no inventory'}")
        lines += [f"  {d.name:{name}}   {d.text:{text}}   {d.source}" for d in said[host.name]]
    return fit(lines)


def _json(host: Host) -> dict[str, Any]:
    """Return the shape of --json: every setting as hosts.ini would write it, with its source."""
    from orchestrator.inventory.describe import described

    return {
        "host": host.name,
        "where": host.where,
        "groups": list(host.groups),
        "settings": {d.name: {"value": d.text, "source": d.source} for d in described(host)},
    }
