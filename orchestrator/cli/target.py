"""HOST or RUN on a command line, and the environment that is meant by it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.runs import FoundRun, Worker, find_run, only_worker
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import LostConnection, OrchError, UsageError

if TYPE_CHECKING:
    from orchestrator.container.engine import Environment
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.command import Command
    from orchestrator.inventory import Host


@dataclass(frozen=True)
class Target:
    """Where a command is to run: a host, its environment, the folder inside, and variables."""

    host: Host
    machine: Machine
    environment: Environment | None  # None: on the host itself
    folder: str | None = None  # as seen inside; None: where shells start
    env: dict[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(8))  # in the environment of what runs there

    @property
    def variables(self) -> dict[str, str]:
        """What a command here finds in its environment."""
        return {**self.env, "ORCH_EXEC_ID": self.token}

    def end(self) -> None:
        """End the command there: neither sshd nor the engine passes on what ends us. Never raises."""
        from orchestrator.hosts.command import Script
        from orchestrator.render import render

        with contextlib.suppress(OrchError):
            self.machine.run(Script("end", render("run/end.sh.j2", token=self.token)), deadline=15)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Let what ends us end the command there too."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, BrokenPipeError):
            self.end()
            raise
        except LostConnection as error:
            hint = "The command may still run there."
            raise LostConnection(error.message, where=self.host.name, hint=hint) from error


def find_target(app: App, word: str | None, *, on_host: bool) -> Target:
    """Find what `word` means: a host of the inventory, else a run, else a bare ssh name.

    Without a word it is the only host there is.
    """
    if word is None or is_host(app, word):
        hosts = app.changed([word] if word else [])
        if len(hosts) != 1:
            raise UsageError(f"{word} is {len(hosts)} hosts", hint="Name one.")
        with WAITING.on([hosts[0].name]):
            return host_target(app, hosts[0], on_host=on_host)
    found = find_run_or_host(app, word)
    if isinstance(found, FoundRun):
        return _run(app, found, on_host)
    with WAITING.on([found.name]):
        return host_target(app, found, on_host=on_host)


def find_run_or_host(app: App, word: str) -> FoundRun | Host:
    """Find the run that a word means; where there is none, the host of that name in ~/.ssh/config.

    `RUN/HOST` is a run's worker on a host.
    """
    from orchestrator.hosts.ssh_config import is_named

    run, of, host = word.partition("/")
    if of:
        return find_run(app, run, [host])
    try:
        return find_run(app, word)
    except UsageError:
        if not is_named(word):
            raise
    return app.changed([word])[0]


def is_host(app: App, word: str) -> bool:
    """Tell whether a word means hosts of the inventory; without one, what is no run's id.

    `ana@gpu09` can't be the name of a run.
    """
    if any(word == h.name for h in app.inventory.hosts) or word in app.inventory.groups:
        return True
    if word == "all" or any(mark in word for mark in ("*", "?", "[", ",", "..", "@")):
        return True
    return not app.inventory.hosts and not word[:8].isdigit()


def host_target(app: App, host: Host, *, on_host: bool) -> Target:
    """Return a host's environment as a target; with `on_host` the host itself."""
    machine = app.machine(host)
    if on_host:
        return Target(host, machine, None)
    from orchestrator.container.identity import identity_of
    from orchestrator.container.ready import environment_for

    return Target(host, machine, environment_for(machine, identity_of(host, app.cwd), ready=True))


def _run(app: App, found: FoundRun, on_host: bool) -> Target:
    worker = only_worker(found, by_word=True)
    with WAITING.on([worker.host.name]):
        return _run_target(app, found, worker, on_host)


def _run_target(app: App, found: FoundRun, worker: Worker, on_host: bool) -> Target:
    from orchestrator.container.ready import read_environment

    machine = app.machine(worker.host)
    record = worker.record
    work = f"work/{found.spec.sub}".rstrip("/")
    if on_host:
        return Target(worker.host, machine, None, f"{record.directory}/{work}")
    environment = read_environment(machine, record.place, ready=True)
    inside = f"{environment.dir}/runs/{found.id}"
    env = {"ORCH_RUN_DIR": inside}
    if record.gpus:
        env.update(CUDA_VISIBLE_DEVICES=",".join(record.gpus), CUDA_DEVICE_ORDER="PCI_BUS_ID")
    return Target(worker.host, machine, environment, f"{inside}/{record.host}/{work}", env)


def entered(target: Target, words: tuple[str, ...], *, stdin: bool = False, tty: bool = False) -> Command:
    """Return the command line for the host that runs `words` where the target is."""
    from orchestrator.hosts.command import Command, Raw, on_host

    command = Command.of("env", *(f"{k}={v}" for k, v in target.variables.items()), *words)
    if target.environment:
        return target.environment.enter(command, workdir=target.folder, stdin=stdin, tty=tty)
    folder = on_host(target.folder or "~")
    return Command((Raw("cd"), folder, Raw("&& exec"), *command.words))
