"""orch ps: runs, newest first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.listing import print_json
from orchestrator.cli.options import host_arguments, pass_app
from orchestrator.errors import Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.inventory import Host
    from orchestrator.run.record import Record
    from orchestrator.run.status import Status

A_DAY = 24 * 60
"""Minutes for which a run that has ended is listed without -a."""

LONGEST = 100
"""Columns of a cause; the whole of it is in `orch why`."""

TAIL = 3000
"""Bytes of each log's end that are looked at for progress."""


def _known_states(
    _ctx: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse a state that no run can have: nothing would ever be listed."""
    if value:
        from orchestrator.run.status import STATES

        for state in value:
            if state not in STATES:
                raise UsageError(f"no state '{state}'", hint=f"There is: {', '.join(STATES)}.")
    return value


@click.command("ps")
@host_arguments
@click.option("-a", "--all", "everything", is_flag=True, help="Also runs that ended more than a day ago.")
@click.option("-A", "--everyone", is_flag=True, help="Everybody's runs.")
@click.option("-q", "--quiet", is_flag=True, help="Print ids only.")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    callback=_known_states,
    shell_complete=completing.states,
    help="Only runs in this state (repeatable).",
)
@click.option("--name", metavar="NAME", help="Only runs of this name.")
@click.option("--tag", metavar="T", help="Only runs with this tag.")
@click.option(
    "--prune",
    metavar="AGE",
    help="Delete this project's runs that ended longer ago (30d), and code that no run needs; asks first.",
)
@click.option("--dry-run", is_flag=True, help="With --prune: only list what would go.")
@click.option("--yes", "-y", is_flag=True, help="With --prune: don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")
@pass_app
def command(
    app: App,
    hosts: tuple[str, ...],
    exclude: tuple[str, ...],
    everything: bool,
    everyone: bool,
    quiet: bool,
    states: tuple[str, ...],
    name: str | None,
    tag: str | None,
    prune: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """List runs, newest first: those that live and those of the last day; -v: each worker of them.

    \b
      orch ps
      orch ps -a --state failed gpu01
      orch ps --prune 30d gpu01
    """
    if prune is not None:
        if everything or everyone or quiet or states or name or tag:
            raise UsageError("--prune takes no filters", hint="As in: orch ps --prune 30d gpu01")
        from orchestrator.cli.prune import prune_runs

        chosen = app.changed(hosts, exclude)
        return prune_runs(app, chosen, prune, yes=yes, dry_run=dry_run, as_json=as_json)
    if dry_run or yes:
        raise UsageError("--dry-run and --yes go with --prune")
    shown = Shown(everything, everyone, quiet, states, name, tag, as_json)
    return _list(app, app.looked_at(hosts, exclude), shown)


@dataclass(frozen=True)
class Shown:
    """Which runs are listed, and how."""

    everything: bool  # also what ended more than a day ago
    everyone: bool
    quiet: bool
    states: tuple[str, ...]  # empty: all
    name: str | None
    tag: str | None
    as_json: bool

    def takes(self, row: dict[str, Any]) -> bool:
        """Whether a row is of a run that is asked for."""
        if self.states and row["state"] not in self.states:
            return False
        return (not self.name or row["name"] == self.name) and (self.tag is None or self.tag in row["tags"])


def _list(app: App, hosts: Sequence[Host], shown: Shown) -> int:
    since, tail = None if shown.everything else A_DAY, 0 if shown.quiet else TAIL
    outcomes = app.each(hosts, lambda m: _records(m, shown.everyone, since, tail))
    found = [(r, o.host) for o in outcomes for r in o.value or ()]
    found.sort(key=lambda f: (f[0].spec.asked, f[0].spec.run, f[1].name), reverse=True)
    if shown.as_json or app.verbose:  # each worker, else each run
        rows = [row for record, host in found if shown.takes(row := _row(record, host))]
    else:
        rows = [row for row in _runs(found) if shown.takes(row)]
    if shown.as_json:
        print_json("ps", rows, ((o.host.name, o.error) for o in outcomes))
    elif shown.quiet:
        for run in dict.fromkeys(r["run"] for r in rows):
            click.echo(run)
    elif rows:
        _print(rows)
    elif not any(o.error for o in outcomes):
        app.say("no runs" if shown.everything else "no runs in the last day (older ones: orch ps -a)")
    code = app.close(outcomes)
    if not (shown.as_json or shown.quiet or shown.everyone):
        _say_silent(app, [o.host.name for o in outcomes if isinstance(o.error, Unreachable)])
        _say_lost(app, [record for record, _ in found])
    return code


def _say_silent(app: App, hosts: Sequence[str]) -> None:
    """Say which run this machine remembers on hosts that don't answer."""
    from orchestrator.run import seen

    for s in seen.recall(seen.file(app.environ)):
        if set(hosts) & set(s.hosts):
            where = ",".join(h for h in s.hosts if h in hosts)
            app.say(f"{where}   the newest run from here: {s.run}   (what to do: orch why {s.run})")
            return


def _say_lost(app: App, records: Sequence[Record]) -> None:
    """Say what to do about the newest run, where it was lost; records are newest first."""
    from orchestrator.run.status import judge

    newest = next((record for record in records if not record.spec.service), None)
    if newest and judge(newest).state == "lost":
        run = newest.spec.run
        app.say(f"next:   orch why {run}      orch resume {run}      orch rerun {run}")


def _records(machine: Machine, everyone: bool, since: int | None, tail: int) -> tuple[Record, ...]:
    from orchestrator.cli.runs import read_records
    from orchestrator.container.identity import person_of

    person = "*" if everyone else person_of(machine.host).slug
    return read_records(machine, person=person, since=since, tail=tail)


def _row(record: Record, host: Host) -> dict[str, Any]:
    """Return what is said of a worker; the shape of --json. Times are seconds since the epoch."""
    from orchestrator.logs.progress import fields_of
    from orchestrator.run.status import judge

    status = judge(record)
    spec = record.spec
    return {
        "run": spec.run,
        "name": spec.name,
        "kind": spec.kind,
        "state": status.state,
        "cause": status.cause,
        "inferred": status.inferred,
        "exit_status": status.exit_status,
        "host": host.name,
        "person": spec.person,
        "project": spec.project,
        "started": status.started,
        "ended": status.ended,
        "age_seconds": _age(record, status),
        "gpus": list(record.gpus),
        "command": list(spec.argv),
        "note": spec.note,
        "tags": list(spec.tags),
        "progress": _progress(record) if status.live else "",
        "training": fields_of(record.progress) if status.live else {},
        "folder": record.folder,
    }


def _runs(found: Sequence[tuple[Record, Host]]) -> list[dict[str, Any]]:
    """Return a row for each run, in the order of `found`: its worst state, and the worker that it comes from.

    How far it is is said by the chief, where that is among the workers.
    """
    from orchestrator.inventory.folded import folded
    from orchestrator.run.first import WORST, first_to_die

    runs: dict[str, list[tuple[Record, Host]]] = {}
    for record, host in found:
        runs.setdefault(record.spec.run, []).append((record, host))
    rows = []
    for workers in runs.values():
        hosts = workers[0][0].spec.hosts
        if len(hosts) == 1 or (len(workers) == 1 and workers[0][0].gone):
            rows += [_row(*worker) for worker in workers]
            continue
        workers.sort(key=lambda w: hosts.index(w[0].host) if w[0].host in hosts else len(hosts))
        first = first_to_die([record for record, _ in workers])
        judged = [_row(*worker) for worker in workers]
        row = next((r for r, w in zip(judged, workers, strict=True) if w[0] is first), None)
        row = row or min(judged, key=lambda r: WORST.index(r["state"]))
        progress = next((r["progress"] for r in judged if r["progress"]), "")
        cause = f"{row['host']}: {row['cause']}" if row["cause"] else ""
        rows.append({**row, "host": folded(hosts), "cause": cause, "progress": progress})
    return rows


def _age(record: Record, status: Status) -> float | None:
    from orchestrator.run.status import last_alive

    since = status.started if status.live else last_alive(record, status)
    return None if since is None else max(0.0, record.ground.now - since)


def _progress(record: Record) -> str:
    from orchestrator.logs.progress import progress

    if record.spec.service:
        from orchestrator.run.service import use_words

        return use_words(record)
    return progress(record.progress, record.tail, now=time.time())


def _print(rows: Sequence[dict[str, Any]]) -> None:
    from orchestrator.cli.table import columns, cut
    from orchestrator.units import duration

    table = []
    for r in rows:
        age = "-" if r["age_seconds"] is None else duration(r["age_seconds"])
        cause = cut(r["cause"], LONGEST) + (" (inferred)" if r["inferred"] else "")
        words = "; ".join(w for w in (cause, r["progress"]) if w)
        table.append((r["run"], r["state"], r["host"], r["person"], age, words))
    for line in columns(("RUN", "STATE", "WHERE", "WHO", "SINCE", "PROGRESS"), table):
        click.echo(line)
