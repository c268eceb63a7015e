"""The ends of `orch image copy`: what its words name, opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.container.image.copying.end import End
    from orchestrator.container.image.copying.file import File
    from orchestrator.container.image.copying.store import Store
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host

HERE = "here"
"""What this machine is called."""


@dataclass(frozen=True)
class Words:
    """What a command line names: an image (None: of this project's environment), and places."""

    image: str | None
    source: str
    targets: tuple[str, ...]


def is_file(word: str) -> bool:
    """Whether a word of the command line is a .tar file."""
    return word.endswith(".tar")


def source_of(app: App, named: Words) -> Store | File:
    """Open the end that is copied from. Raises OrchError."""
    if is_file(named.source):
        return _file(app, named.source)
    host = _here(app) if named.source == HERE else _one(app, named.source)
    (outcome,) = app.each([host], lambda machine: _store(app, machine))
    if outcome.error:
        raise outcome.error
    assert outcome.value
    return outcome.value


def _one(app: App, word: str) -> Host:
    hosts = app.changed([word])
    if len(hosts) != 1:
        raise UsageError(f"{word} is {len(hosts)} hosts, and one is copied from", hint="Name one.")
    return hosts[0]


def _here(app: App) -> Host:
    """Return this machine, or the host of the inventory that has its name."""
    from orchestrator.inventory import Host, Settings

    found = next((h for h in app.inventory.hosts if h.name == HERE), None)
    if found:
        return found
    command = tuple(app.environ.get("ORCH_ENGINE_COMMAND", "").split())
    engine = app.environ.get("ORCH_ENGINE") or ("docker" if command else "auto")
    return Host(HERE, HERE, connection="local", settings=Settings(engine=engine, engine_command=command))


def _store(app: App, machine: Machine) -> Store:
    from orchestrator.container.identity import identity_of
    from orchestrator.container.image.copying.store import open_store
    from orchestrator.container.settle import settle

    place = identity_of(machine.host, app.cwd).place(machine.host)
    settle(machine, place)
    host = machine.host
    if not host.settings.in_container:
        why = f" ({host.picked})" if host.picked else f" ({host.came_from('engine')})"
        raise UsageError(
            f"{host.name}: images are docker's and podman's, and engine = {host.settings.engine} there{why}"
        )
    return open_store(machine, place)


def _file(app: App, word: str) -> File:
    from orchestrator.container.image.copying.file import File
    from orchestrator.facts.copying import COPYING
    from orchestrator.facts.question import ask
    from orchestrator.inventory import Host

    machine = app.machine(Host(HERE, HERE, connection="local"))
    return File(machine, ask(machine, COPYING).of(COPYING), app.cwd / Path(word).expanduser())


def targets_of(app: App, named: Words, source: Store | File) -> list[Outcome[End]]:
    """Open the ends that are copied to, each with what became of it. Raises UsageError."""
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host

    files = [_file(app, word) for word in named.targets if is_file(word)]
    words = [word for word in named.targets if word != HERE and not is_file(word)]
    hosts = list(app.changed(words)) if words else []
    hosts += [_here(app)] if HERE in named.targets else []
    if any(h.name == source.title for h in hosts):
        raise UsageError(f"{source.title} is FROM and TO")
    stores: list[Outcome[End]] = app.each(hosts, lambda machine: _store(app, machine))
    return stores + [Outcome(Host(file.title, HERE), value=file) for file in files]
