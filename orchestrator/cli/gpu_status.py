"""orch gpu-status: every GPU of every host, who uses it and for which run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App, exit_code
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.cli.redrawn import redrawn
from orchestrator.cli.table import fit, padded, width
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import FAILED

if TYPE_CHECKING:
    from orchestrator.gpus import HostGpus, Row
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host

BAR = 9
"""Characters of a bar."""


@click.command("gpu-status")
@host_arguments
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Ask again every so many seconds (2), until Ctrl-C.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md); with --watch one a line.")
@click.option("--check", is_flag=True, help="End with 1 when a GPU or a driver has a fault.")
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    watch: float | None,
    as_json: bool,
    check: bool,
) -> int:
    """Show every GPU, who uses it and for which run.

    \b
      orch gpu-status
      orch gpu-status gpu01 gpu02 --watch 5
    """
    chosen = app.looked_at(hosts, exclude)
    if watch is not None:
        _watch(app, chosen, watch, as_json)
    outcomes = app.each(chosen, _ask)
    found = _found(outcomes)
    if as_json:
        _print_json(found)
    else:
        click.echo("\n".join(lines(found)))
    failed = exit_code(outcomes)
    return failed or (FAILED if any(h.failed or (check and h.faulty) for h in found) else 0)


def _ask(machine: Machine) -> HostGpus:
    from orchestrator.facts.gpu import GPUS
    from orchestrator.facts.question import ask
    from orchestrator.gpus import DEADLINE, HostGpus

    values = {"docker": machine.host.settings.container_command}
    return HostGpus(machine.host.name, ask(machine, GPUS, values=values, deadline=DEADLINE).of(GPUS))


def _found(outcomes: Sequence[Outcome[HostGpus]]) -> list[HostGpus]:
    from orchestrator.gpus import HostGpus

    return [o.value or HostGpus(o.host.name, error=o.error) for o in outcomes]


def _print_json(found: Sequence[HostGpus], *, one_line: bool = False) -> None:
    from orchestrator.gpus import as_json

    print_json("gpu-status", map(as_json, found), ((h.host, h.error) for h in found), one_line=one_line)


def _watch(app: App, hosts: Sequence[Host], seconds: float, as_json: bool) -> None:
    """Ask again and again, over the connections that the App keeps; ends by Ctrl-C only."""
    with WAITING.hidden(), redrawn(plain=as_json) as show:
        while True:
            began = time.monotonic()
            found = _found(app.each(hosts, _ask))
            if as_json:
                _print_json(found, one_line=True)
            else:
                show("\n".join([*lines(found), _every(seconds)]))
            time.sleep(max(0.0, seconds - (time.monotonic() - began)))


def _every(seconds: float) -> str:
    return f"{time.strftime('%H:%M:%S')}, every {seconds:g} s, Ctrl-C ends"


def lines(found: Sequence[HostGpus]) -> list[str]:
    """Return the listing: a line per host, and under it one per GPU, aligned over all hosts."""
    from orchestrator.gpus import row, title

    rows = {host.host: [row(gpu) for gpu in host.report.gpus] for host in found if host.report}
    layout = _Layout([r for many in rows.values() for r in many])
    heads = _heads([(host.host, title(host), not rows.get(host.host)) for host in found])
    name = max((width(names) for names, _ in heads.values()), default=0)
    listing = []
    for host in found:
        if host.host in heads:
            names, words = heads[host.host]
            listing.append(f"{padded(names, name)}   {words}")
        listing += map(layout.line, rows.get(host.host, ()))
        listing += [
            f"  warning: {w.removeprefix('WARNING: ')}" for w in (host.report.warnings if host.report else ())
        ]
    return fit(listing)


def _heads(titles: Sequence[tuple[str, str, bool]]) -> dict[str, tuple[str, str]]:
    """Return by first host the names and words of each line; hosts alone with the same words have one."""
    from orchestrator.cli.folding import grouped, with_names, without_name
    from orchestrator.inventory.folded import folded

    heads = {}
    for group in grouped(titles, lambda t: without_name(t[1], t[0]) if t[2] else t[0]):
        hosts = [host for host, _, _ in group]
        heads[hosts[0]] = folded(hosts), with_names(without_name(group[0][1], hosts[0]), hosts)
    return heads


class _Layout:
    """The widths of the columns; numbers stand under each other, a dash under their last digit."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._widths = [
            max((len(c) for c in column), default=0) for column in zip(*map(self._cells, rows), strict=True)
        ]

    @staticmethod
    def _cells(row: Row) -> tuple[str, ...]:
        pairs = (
            (row.index, ""),
            (row.utilization, " %"),
            (row.memory, " GB"),
            (row.temperature, " C"),
            (row.power, " W"),
        )
        return tuple(cell + " " * len(unit) if cell == "-" else cell for cell, unit in pairs)

    def line(self, row: Row) -> str:
        index, utilization, *others = (
            cell.rjust(width) for cell, width in zip(self._cells(row), self._widths, strict=True)
        )
        return "   ".join([f"  {index}", f"{utilization}  |{bar(row.busy)}|", *others, row.who])


def bar(busy: int | None) -> str:
    """Return how busy a GPU is (0 to 100) as BAR characters; blanks when it is idle or not known."""
    if not busy:
        return " " * BAR
    full, rest = ("█", "░") if _draws_blocks() else ("#", "-")
    count = round(min(busy, 100) * BAR / 100)
    return full * count + rest * (BAR - count)


def _draws_blocks() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
