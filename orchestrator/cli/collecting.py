"""Collecting the code that a verb sends, and saying what of it is not sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.code.bundle import Bundle


def collected(app: App, host: Host, argv: tuple[str, ...], max_size: str) -> tuple[Bundle, tuple[str, ...]]:
    """Collect the code to send: the project, or the bundled trainer where no command is given."""
    from orchestrator.container.identity import identity_of
    from orchestrator.run.code.bundle import collect
    from orchestrator.run.code.unsent import unsent
    from orchestrator.run.order import TRAINER, trainer_bundle
    from orchestrator.units import bytes_of

    try:
        limit = bytes_of(max_size)
    except ValueError as error:
        raise UsageError(f"--max-size {max_size}: {error}") from error
    if not argv or argv[0].startswith("-"):
        return trainer_bundle(), (*TRAINER, *argv)
    bundle = collect(identity_of(host, app.cwd).project.folder, max_bytes=limit)
    for note in bundle.notes:
        app.say(f"note: {note}")
    for word in unsent(argv, app.cwd, bundle):
        app.say(f"warning: {word} is here but is not sent (ignored, or outside the project)")
    return bundle, argv


def without(app: App, bundle: Bundle, *secrets: str | None) -> Bundle:
    """Leave files of values out of the code: a bundle lies on the host for others to read."""
    from dataclasses import replace

    files = (os.path.realpath(app.cwd / Path(file).expanduser()) for file in secrets if file)
    paths = {os.path.relpath(file, os.path.realpath(bundle.top)) for file in files}
    left = tuple(entry for entry in bundle.entries if entry.path in paths)
    for entry in left:
        app.say(f"note: not sent: {entry.path} (its values go as environment variables)")
    return replace(bundle, entries=tuple(e for e in bundle.entries if e not in left)) if left else bundle
