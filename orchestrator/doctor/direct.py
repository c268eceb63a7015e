"""Checks where there is no daemon: `activate`, the account's Python, apptainer, packages by hand."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.container.direct.apptainer_image import HOW_TO_HAVE, is_path
from orchestrator.container.direct.known import check_activation
from orchestrator.container.direct.own import check_python
from orchestrator.container.engine import Environment
from orchestrator.doctor import python
from orchestrator.doctor.check import Check, Examined, fail, ok, warn
from orchestrator.errors import OrchError
from orchestrator.units import dotted


def venv_checks(seen: Examined) -> Iterator[Check]:
    """Check what a venv is made of, and whether it is as it was made."""
    yield from _activation(seen)
    if not seen.own.status:
        yield from python.checks(seen)
        yield from _by_hand(seen)


def host_checks(seen: Examined) -> Iterator[Check]:
    """Check the account's own Python."""
    yield from _activation(seen)
    if seen.own.status:
        return
    try:
        check_python(seen.host, seen.own)
    except OrchError as error:
        hint = error.hint or f"Set `python` to another{seen.set_in('python')}."
        yield fail("python", error.message, hint)
    else:
        yield ok("python", f"{seen.own.python} ({dotted(seen.own.version)})")


def apptainer_checks(seen: Examined) -> Iterator[Check]:
    """Check the program and the image."""
    yield from _activation(seen)
    if seen.own.status:
        return
    if not seen.own.program:
        yield fail("apptainer", "apptainer is not installed", HOW_TO_HAVE)
        return
    yield ok("apptainer", seen.own.release)
    image = seen.host.settings.image or ""
    if is_path(image) and seen.own.image is None:
        yield fail("image", f"there is no {image}", f"Put it there, or change `image`{seen.set_in('image')}.")
    elif is_path(image):
        yield ok("image", image)
    yield from _by_hand(seen)


def _activation(seen: Examined) -> Iterator[Check]:
    line = seen.host.settings.activate
    try:
        check_activation(seen.host, seen.own)
    except OrchError as error:
        hint = error.hint or f"Correct `activate`{seen.set_in('activate')}."
        yield fail("activate", error.message.removeprefix("activate: "), hint)
        return
    if line:
        yield ok("activate", line)


def _by_hand(seen: Examined) -> Iterator[Check]:
    """Compare what is installed with what a deploy installed."""
    there = Environment.read(seen.place.environment)
    changes = [change for whole, change in seen.place.venv_changes if there and whole == there.whole]
    if changes:
        hint = "`orch deploy` makes it anew; what shall stay belongs into requirements."
        yield warn("packages", f"changed by hand: {', '.join(changes)}", hint)
