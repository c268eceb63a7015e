"""The one question before something is changed."""

from __future__ import annotations

import click

from orchestrator.cli.app import App
from orchestrator.errors import OrchError, UsageError


def ask(app: App, yes: bool, what: str) -> None:
    """Ask whether to go on. Raises UsageError without a terminal and without --yes, OrchError (1) on no."""
    if yes:
        return
    if not app.interactive():
        raise UsageError(f"{what}, and there is no terminal to ask on", hint="Add --yes.")
    if not click.confirm("Go on?", default=True, err=True):
        raise OrchError("nothing was done: you said no")
