"""Checks on what a venv with TensorFlow is made of."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.container.direct.venv_spec import choose
from orchestrator.doctor.check import Check, Examined, fail, ok, version
from orchestrator.errors import OrchError
from orchestrator.units import dotted

GLIBC = (2, 17)
"""manylinux2014, which TensorFlow's wheels are built for."""


def checks(seen: Examined) -> Iterator[Check]:
    """Check Python and the C library."""
    yield _python(seen)
    glibc = seen.system.glibc
    if version(glibc) < GLIBC:
        had = f"glibc {glibc}" if glibc else "no glibc (musl?)"
        yield fail(
            "libc", f"{had}: TensorFlow's wheels need glibc 2.17", "Use another host, or engine = docker."
        )
    else:
        yield ok("libc", f"glibc {glibc}")


def _python(seen: Examined) -> Check:
    try:
        _, python = choose(seen.host, seen.system)
    except OrchError as error:
        return fail("python", error.message, error.hint or "Set `python` to another.")
    if not python.path:
        return ok("python", f"none here fits: uv fetches Python {dotted(python.version)}")
    return ok("python", f"{python.path} ({dotted(python.version)})")
