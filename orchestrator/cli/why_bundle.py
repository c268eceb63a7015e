"""orch why --bundle: what is known of a run, in one archive, with secrets masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.app import App
from orchestrator.errors import OrchError

if TYPE_CHECKING:
    from orchestrator.cli.runs import FoundRun
    from orchestrator.inventory import Host


def write_bundle(app: App, found: FoundRun, path: Path, row: Mapping[str, Any], screen: list[str]) -> None:
    """Write the archive and say so. A host that gives no files is told, and the rest is written."""
    from orchestrator.cli.app import tell
    from orchestrator.run.explain.archive import files_of_worker, versions, write
    from orchestrator.units import size

    for worker in found.workers:
        hide_known(app, worker.host, found.spec.env)
    records = {w.host.name: w.record for w in found.workers}
    hosts = [w.host for w in found.workers]
    outcomes = app.each(hosts, lambda machine: files_of_worker(machine, records[machine.host.name]))
    files = {
        "why.txt": "\n".join(screen).encode() + b"\n",
        "why.json": json.dumps(row, indent=2).encode() + b"\n",
        "versions.txt": versions().encode(),
    }
    for outcome in outcomes:
        files |= outcome.value or {}
        if outcome.error:
            tell(outcome.error)
    written = write(path, f"orch-why-{found.id}", files)
    app.say(f"bundle  {path.name}, {size(written)}, secrets masked: look through it before you send it")


def hide_known(app: App, host: Host, names: tuple[str, ...]) -> None:
    """Mask from now on what settings and the caller's environment hold for the variables of a run."""
    from orchestrator.container.inputs import read_inputs
    from orchestrator.hosts.masking import hide, hide_environment

    for name in host.settings.secret:
        hide(app.environ.get(name, ""))
    hide_environment({name: app.environ[name] for name in names if name in app.environ})
    hide_environment(host.settings.env)
    try:
        read_inputs(host, app.environ)  # hides what env_file holds
    except OrchError as error:
        app.say(f"note: {error}; its values are not known")
