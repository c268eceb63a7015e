"""The names and sizes of what bundles hold: from those kept here, else from their hosts."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import HostError
from orchestrator.files.listing import list_files
from orchestrator.hosts.base import Machine
from orchestrator.run.code.kept import kept
from orchestrator.run.explain.diff import Files, listed, sent
from orchestrator.run.record import Record


def files_of(sides: Sequence[tuple[Machine, Record]]) -> list[Files | None]:
    """Return the files of each run's bundle, None where nobody has it any more.

    What is kept here costs no question; the rest is one exec per host. Nothing is asked where all have
    the same bundle: then nobody needs to know.
    """
    if len({record.spec.bundle for _, record in sides}) == 1:
        return [None] * len(sides)
    found: dict[str, Files | None] = {}
    for _, record in sides:
        bundle = kept(record.spec.bundle)
        if bundle:
            found[record.spec.bundle] = sent(bundle)
    for machine in {m.host.name: m for m, _ in sides}.values():
        here = [record for m, record in sides if m.host.name == machine.host.name]
        found.update(_on_host(machine, {r.spec.bundle: r for r in here if r.spec.bundle not in found}))
    return [found[record.spec.bundle] for _, record in sides]


def _on_host(machine: Machine, records: dict[str, Record]) -> dict[str, Files | None]:
    if not records:
        return {}
    folders = [(f"{record.place}/bundles/{digest}", None) for digest, record in records.items()]
    try:
        roots = list_files(machine, folders).roots
    except HostError:  # what is compared besides is worth telling
        return dict.fromkeys(records)
    return {
        d: listed(root.items) if root.kind == "dir" else None for d, root in zip(records, roots, strict=True)
    }
