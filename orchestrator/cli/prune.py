"""orch ps --prune: delete runs that ended long ago, and the code that no run needs any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.app import App
from orchestrator.cli.listing import print_json
from orchestrator.errors import FAILED, OK, UsageError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host
    from orchestrator.run.prune import Found


def prune_runs(app: App, hosts: Sequence[Host], age: str, *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """List what would go of the caller's project, ask, and delete it."""
    from orchestrator.cli.asking import ask
    from orchestrator.run.prune import prune

    seconds = _seconds(age)
    outcomes = app.each(hosts, lambda machine: _survey(machine, app, seconds))
    going = {o.host.name: o.value for o in outcomes if o.value and any(not f.kept for f in o.value[1])}
    if dry_run or not going:
        return _told(app, outcomes, as_json, click.echo)
    _told(app, outcomes, False, app.say)
    ask(app, yes, "a prune deletes runs for good")

    def work(machine: Machine) -> tuple[str, list[Found]]:
        place, found = going[machine.host.name]
        runs = [f.name for f in found if f.kind == "run" and not f.kept]
        return place, prune(machine, place, runs)

    done = app.each([o.host for o in outcomes if o.host.name in going], work)
    return _told(app, [*(o for o in outcomes if o.host.name not in going), *done], as_json)


def _seconds(age: str) -> float:
    from orchestrator.units import seconds_of

    try:
        return seconds_of(age)
    except ValueError as error:
        raise UsageError(f"--prune {age}: {error}", hint="As in: orch ps --prune 30d") from error


def _survey(machine: Machine, app: App, seconds: float) -> tuple[str, list[Found]]:
    from orchestrator.cli.runs import read_records
    from orchestrator.container.identity import identity_of
    from orchestrator.run.prune import old, survey

    identity = identity_of(machine.host, app.cwd)
    records = read_records(machine, person=identity.person.slug)
    runs = old(records, identity.project.name, seconds)
    places = {r.place for r in records if r.spec.project == identity.project.name}
    place = places.pop() if len(places) == 1 else ""
    return place, survey(machine, place, runs) if place else []


def _told(
    app: App,
    outcomes: Sequence[Outcome[tuple[str, list[Found]]]],
    as_json: bool,
    listed: Callable[[str], object] | None = None,
) -> int:
    """Tell what can go, line by line by `listed`; without it, what went."""
    from orchestrator.units import size

    done = listed is None
    rows = [_row(o.host.name, f, done) for o in outcomes for f in (o.value[1] if o.value else ())]
    spared = {f.name for o in outcomes for f in (o.value[1] if o.value else ()) if f.spared}
    failed = done and any(row["kept"] for row in rows if row["name"] not in spared)
    if as_json:
        print_json("prune", rows, ((o.host.name, o.error) for o in outcomes))
        return app.close(outcomes) or (FAILED if failed else OK)
    for row in rows:
        if row["name"] in spared:
            continue
        if row["kept"]:
            app.say(f"{row['host']}   kept    {row['name']}: {row['kept']}")
        elif listed:
            listed(f"{row['host']}   {row['kind']:6}  {row['name']}   {size(row['size'])}")
    app.say(f"{'deleted' if done else 'can go'}: {_sum(rows)}{_spared(len(spared))}")
    return app.close(outcomes) or (FAILED if failed else OK)


def _sum(rows: Sequence[dict[str, Any]]) -> str:
    """Return `1 run, 2 bundles, 41 kB` of what goes."""
    from orchestrator.units import how_many, size

    gone = [row for row in rows if not row["kept"]]
    runs, bundles = (sum(row["kind"] == kind for row in gone) for kind in ("run", "bundle"))
    return f"{how_many(runs, 'run')}, {how_many(bundles, 'bundle')}, {size(sum(row['size'] for row in gone))}"


def _spared(count: int) -> str:
    from orchestrator.units import how_many

    return f"   ({how_many(count, 'bundle')} that came within the hour: another time)" if count else ""


def _row(host: str, found: Found, done: bool) -> dict[str, Any]:
    """Return what is said of a thing that can go; the shape of --json."""
    return {
        "host": host,
        "kind": found.kind,
        "name": found.name,
        "size": found.size,
        "kept": found.kept or None,
        "deleted": done and not found.kept,
    }
