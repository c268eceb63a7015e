"""Whether output has colours: NO_COLOR, FORCE_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM; else by terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO


def wanted(environ: Mapping[str, str]) -> bool | None:
    """Return what the environment says of colours; None where it leaves that to the terminal."""
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    if environ.get("TERM") == "dumb" or environ.get("CLICOLOR") == "0":
        return False
    return None


def shown(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream is to get colours."""
    said = wanted(environ)
    return stream.isatty() if said is None else said
