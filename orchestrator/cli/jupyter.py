"""orch jupyter: JupyterLab in the container of a host, and a way to it."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import click

from orchestrator.cli import completing
from orchestrator.cli.app import App
from orchestrator.cli.options import inventory_options, pass_app
from orchestrator.cli.serving import idle_seconds
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import OrchError, UsageError

if TYPE_CHECKING:
    from orchestrator.cli.runs import Worker
    from orchestrator.container.engine import Environment
    from orchestrator.hosts.base import Machine
    from orchestrator.inventory import Host
    from orchestrator.run.service import Service

PORT = 8888
"""The port of this machine that is taken where it is free: Jupyter's own."""


@click.command("jupyter")
@inventory_options
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="The port of this machine. Default: 8888, or any.",
)
@click.option(
    "--idle", metavar="TIME", callback=idle_seconds, help="End it when nobody used it for so long: 30m, 12h."
)
@click.option("--install", is_flag=True, help="Install Jupyter into the home where it is missing; don't ask.")
@click.argument("word", required=False, metavar="[HOST]", shell_complete=completing.hosts)
@pass_app
def command(app: App, port: int | None, idle: float, install: bool, word: str | None) -> int:
    """Open JupyterLab in the container of a host: it starts in /workspace, and a port here leads to it.

    What opens it is a random token in a file that only you may read (0600), and in the URL on your terminal.
    It takes no GPU. Ctrl-C ends the way there; Jupyter goes on as a run (ps, tail, stop), and the same words
    find it again. A notebook that computes counts as use.

    \b
      orch jupyter gpu01
      orch jupyter gpu01 --idle 12h
    """
    from orchestrator.cli.forwarding import forward
    from orchestrator.cli.serving import served

    worker = served(app, _service(app, _host(app, word), idle, install=install))
    token = _token(app, worker)
    return forward(app, worker, port, PORT, lambda local: _url(app, worker, local, token))


def _host(app: App, word: str | None) -> Host:
    hosts = app.changed([word] if word else [])
    if len(hosts) != 1:
        raise UsageError(f"{word} is {len(hosts)} hosts", hint="Name one.")
    return hosts[0]


def _service(app: App, host: Host, idle: float, *, install: bool) -> Service:
    from orchestrator.container.identity import identity_of
    from orchestrator.container.ready import environment_for
    from orchestrator.run.service import Service

    identity = identity_of(host, app.cwd)
    with WAITING.on([host.name]):
        machine = app.machine(host)
        environment = environment_for(machine, identity, ready=True)
    _provide(app, machine, environment, install=install)
    return Service("jupyter", host, identity, ("--folder", environment.workspace), idle)


def _provide(app: App, machine: Machine, environment: Environment, *, install: bool) -> None:
    """See that Jupyter is there: offer to install it. Raises UsageError, or OrchError on a no."""
    from orchestrator.container.notebooks import find_jupyter, install_jupyter

    with WAITING.on([machine.host.name]):
        there, venv = find_jupyter(machine, environment)
    if there:
        return
    where = f"{machine.host.name}: no Jupyter in {environment.image or f'the {environment.engine} there'}"
    if venv:
        raise UsageError(where, hint="Add jupyterlab to `requirements` in hosts.ini, then: orch deploy")
    if not install:
        _ask(app, where)
    app.say(f"{machine.host.name}: installing Jupyter into the home, which outlives deploys")
    with WAITING.on([machine.host.name]):
        install_jupyter(machine, environment)


def _ask(app: App, where: str) -> None:
    if not app.interactive():
        raise UsageError(where, hint="To install it into the home there, which outlives deploys: --install")
    if not click.confirm(f"{where}. Install it into the home there?", default=True, err=True):
        raise OrchError("nothing was done: you said no")


def _token(app: App, worker: Worker) -> str:
    from orchestrator.hosts.masking import hide
    from orchestrator.run.service import TOKEN

    into = io.BytesIO()
    app.machine(worker.host).get(f"{worker.record.directory}/{TOKEN}", into)
    token = into.getvalue().decode("ascii", "replace").strip()
    hide(token)
    return token


def _url(app: App, worker: Worker, port: int, token: str) -> str:
    """Return the URL; the token is in it only where nothing keeps it: on a terminal."""
    from orchestrator.run.service import TOKEN

    address = f"http://127.0.0.1:{port}/"
    if sys.stdout.isatty():
        return f"{address}?token={token}"
    app.say(f"token   {worker.host.name}:{worker.record.directory}/{TOKEN}")
    return address
