"""Checks on what a venv with TensorFlow is made of."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.doctor.check import Check, Examined, fail, ok, version

OLD_TENSORFLOW = ((3, 7), (3, 10))
"""The Pythons of TensorFlow 2.9 (its wheels on PyPI)."""

NEW_TENSORFLOW = ((3, 10), (3, 13))
"""The Pythons of the newest TensorFlow, 2.21 (its wheels on PyPI)."""

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
    wish = seen.host.settings.tensorflow
    spans = [OLD_TENSORFLOW, NEW_TENSORFLOW]
    if wish and version(wish):
        spans = [OLD_TENSORFLOW if version(wish) < (2, 10) else NEW_TENSORFLOW]
    there = seen.system.pythons
    fitting = [p for p in there if any(low <= p.version[:2] <= high for low, high in spans)]
    usable = [p for p in fitting if p.venv]
    if usable:
        return ok("python", ", ".join(".".join(map(str, p.version)) for p in usable))
    if fitting:
        parts = ".".join(map(str, fitting[0].version[:2]))
        hint = f"As root there: apt-get install python{parts}-venv."
        return fail("python", f"{fitting[0].path} can't make a venv (no ensurepip or ssl)", hint)
    wanted = " or ".join(f"{low[0]}.{low[1]} to {high[0]}.{high[1]}" for low, high in spans)
    had = f"only {', '.join('.'.join(map(str, p.version)) for p in there)}" if there else "none"
    hint = "Install one there (no root needed: uv python install 3.10), or name it: python = PATH."
    return fail(
        "python", f"TensorFlow {wish or ''} needs Python {wanted}; found {had}".replace("  ", " "), hint
    )
