"""orch login: log in by hand once, for what wants to be told a one-time password."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App
from orchestrator.cli.options import host_arguments, pass_app

if TYPE_CHECKING:
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host


@click.command("login")
@host_arguments
@click.option("--check", is_flag=True, help="Only tell which hosts are logged in to; 1 where one is not.")
@click.option("--end", is_flag=True, help="Log out of the hosts; without any, of everything.")
@pass_app
def command(app: App, hosts: tuple[str, ...], exclude: tuple[str, ...], check: bool, end: bool) -> int:
    """Log in to hosts by hand, once: ssh asks for passwords, one-time passwords and unknown host keys.

    The login lasts until 8 hours after its last use, and all verbs use it, from cron too. Jump hosts before
    a host are logged in to first, and serve every host behind them.

    \b
      orch login gpu01
      orch login bastion
      orch login --end
    """
    from orchestrator.errors import UsageError

    if check and end:
        raise UsageError("--check or --end, not both")
    if end:
        return _end(app, hosts, exclude)
    if check:
        return _for_each(app, app.looked_at(hosts, exclude), _checked)
    chosen = app.changed(hosts, exclude)
    if not app.interactive():
        raise UsageError("orch login asks on a terminal, and there is none", hint="Log in from one first")
    return _for_each(app, chosen, lambda host: _logged_in(app, host))


def _for_each(app: App, hosts: Sequence[Host], do: Callable[[Host], str]) -> int:
    """Do it host by host, for there is one terminal; tell each, and return the exit code of all."""
    from orchestrator.errors import OrchError
    from orchestrator.hosts.fleet import Outcome

    outcomes: list[Outcome[str]] = []
    for host in hosts:
        try:
            outcomes.append(Outcome(host, value=do(host)))
            click.echo(f"{host.name}: {outcomes[-1].value}")
        except OrchError as error:
            outcomes.append(Outcome(host, error=error))
    return app.close(outcomes)


def _logged_in(app: App, host: Host) -> str:
    from orchestrator.hosts.openssh_login import HOURS, log_in

    if host.connection == "local":
        return "this machine needs no login"
    asked = False
    for name in log_in(host):
        asked = True
        app.say(f"{name}:" if name == host.name else f"{name}, on the way to {host.name}:")
    lasting = f"until {HOURS} h after the last use" if asked else "already"
    return f"logged in, {lasting}"


def _checked(host: Host) -> str:
    from orchestrator.errors import NotPermitted
    from orchestrator.hosts.openssh_login import look

    if host.connection == "local":
        return "this machine needs no login"
    login = look(host)
    if login is None:
        raise NotPermitted("not logged in", where=host.name, hint=f"orch login {host.name}")
    whose = "by orch login" if login.kept else f"by a ControlMaster of yours ({login.path})"
    return f"logged in {whose}" if login.here else f"logged in to {login.at}, on its way, {whose}"


def _end(app: App, hosts: Sequence[str], exclude: Sequence[str]) -> int:
    from orchestrator.hosts.openssh_login import end, look
    from orchestrator.hosts.openssh_sockets import all_kept

    if hosts:
        found = [look(host) for host in app.looked_at(hosts, exclude) if host.connection != "local"]
        paths = [login.path for login in found if login and login.kept and login.here]
    else:
        paths = all_kept()
    ended = end(paths)
    click.echo(f"{ended} login{'' if ended == 1 else 's'} ended")
    return 0
