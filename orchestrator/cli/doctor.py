"""orch doctor: prove that the hosts can do the job, or say the one thing to fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App, exit_code
from orchestrator.cli.folding import named, with_names, without_name
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.cli.table import wrapped
from orchestrator.errors import FAILED, OK, OrchError

if TYPE_CHECKING:
    from orchestrator.container.identity import Identity
    from orchestrator.doctor import Check, Examined
    from orchestrator.hosts.base import Machine
    from orchestrator.inventory import Host

MEETING = 4
"""Hosts of a run that the next step names at most."""

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "bright_black"}


@click.command("doctor")
@host_arguments
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@pass_app
def command(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], as_json: bool) -> int:
    """Prove that the hosts can do the job, or say the one thing to fix.

    Of several hosts only what is not well is shown, unless -v is given.

    \b
      orch doctor
      orch doctor gpu01 --json
    """
    diagnoses, code = examine(app, app.looked_at(hosts, exclude))
    if as_json:
        print_json("doctor", map(_json, diagnoses), ((d.host, d.error) for d in diagnoses))
    else:
        for line in listing(diagnoses, everything=len(diagnoses) == 1 or app.verbose > 0):
            click.echo(line)
        step = next_step(diagnoses)
        if step:
            app.say(f"next:   {step}")
    return code


@dataclass(frozen=True)
class Diagnosis:
    """The checks of one host."""

    host: str
    checks: tuple[Check, ...]
    error: OrchError | None = None  # where the host was not reached

    @property
    def well(self) -> bool:
        """Whether the host can do the job."""
        return not self.count("fail")

    @property
    def deployed(self) -> bool:
        """Whether what a deploy left is there, as it was left."""
        return any(check.name == "deployed" and check.level.value == "ok" for check in self.checks)

    @property
    def together(self) -> bool:
        """Whether it could train with the others of its group."""
        return any(check.name == "together" and check.level.value == "ok" for check in self.checks)

    def count(self, level: str) -> int:
        """Return how many checks ended so."""
        return sum(check.level.value == level for check in self.checks)


def examine(app: App, hosts: Sequence[Host]) -> tuple[list[Diagnosis], int]:
    """Examine hosts; return each one's checks and the exit code."""
    from orchestrator.doctor import diagnose, together, unreached

    outcomes = app.each(hosts, lambda machine: _examined(app, machine))
    row = together([o.value for o in outcomes if o.value])
    diagnoses = [
        Diagnosis(o.host.name, (*diagnose(o.value), *([row[name]] if (name := o.host.name) in row else ())))
        if o.value
        else Diagnosis(o.host.name, unreached(o.error, o.host.address) if o.error else (), o.error)
        for o in outcomes
    ]
    return diagnoses, exit_code(outcomes) or (OK if all(d.well for d in diagnoses) else FAILED)


def _examined(app: App, machine: Machine) -> Examined:
    from orchestrator.doctor.ask import look

    return look(machine, _identity(app, machine.host), app.environ)


def _identity(app: App, host: Host) -> Identity | None:
    """Return whose and which project is meant; None where there is none here."""
    from orchestrator.container.identity import identity_of

    try:
        return identity_of(host, app.cwd)
    except OrchError:
        return None


def next_step(diagnoses: Sequence[Diagnosis]) -> str | None:
    """Return what to type next: a deploy where a host that is well has none, else a training."""
    well = [d for d in diagnoses if d.well]
    missing = [d.host for d in well if not d.deployed]
    if missing:
        return f"orch deploy --hosts {named(missing)}"
    several = [d.host for d in well if d.together]
    hosts = ",".join(several) if 1 < len(several) <= MEETING else well[0].host if well else ""
    return f"orch train --hosts {hosts} -- python3 train.py" if hosts else None


def listing(diagnoses: Sequence[Diagnosis], *, everything: bool) -> list[str]:
    """Return the lines for people; hosts of which the same is said stand together."""
    from orchestrator.inventory.folded import folded

    blocks: dict[tuple[str, ...], list[str]] = {}
    for diagnosis in diagnoses:
        block = (without_name(line, diagnosis.host) for line in _block(diagnosis, everything))
        blocks.setdefault(tuple(block), []).append(diagnosis.host)
    lines = []
    for (first, *rest), hosts in blocks.items():
        lines.append(f"{click.style(folded(hosts), bold=True)}   {first}")
        lines += (with_names(line, hosts) for line in rest)
    return lines


def _block(diagnosis: Diagnosis, everything: bool) -> list[str]:
    failed, warned = diagnosis.count("fail"), diagnosis.count("warn")
    counts = [f"{failed} to fix"] * bool(failed) + [f"{warned} to know"] * bool(warned)
    shown = [c for c in diagnosis.checks if everything or c.level.value in ("fail", "warn")]
    width = max((len(c.name) for c in shown), default=0)
    lines = [", ".join(counts) or "ready"]
    for check in shown:
        level = check.level.value
        mark = click.style(f"{level.upper() if level == 'fail' else level:4}", fg=_COLOURS[level])
        lines.append(f"  {mark}  {check.name:{width}}   {wrapped(check.message, width + 11)}")
        if check.hint and level in ("fail", "warn"):
            lines.append(f"  {'':4}  {'':{width}}   -> {wrapped(check.hint, width + 14)}")
    return lines


def _json(diagnosis: Diagnosis) -> dict[str, object]:
    checks = [{**asdict(check), "level": check.level.value} for check in diagnosis.checks]
    return {"host": diagnosis.host, "ok": diagnosis.well, "checks": checks}
