"""How an image is packed on its way.

Measured with the fleet's TensorFlow 2.9 (1.28 GB, two busy cores, seconds of processor time): zstd -1 takes
3.1 s to 430 MB, zstd -3 5.8 s to 373 MB, gzip -1 16 s to 465 MB. `docker save` itself gives 80 MB/s there and
`docker load` takes longer, so that zstd costs nothing on any link, and gzip less than it saves on all but
those beyond 1 GBit/s. On one machine nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.facts.copying import CopyingReport

ZSTD, GZIP, PLAIN = "zstd", "gzip", "none"

_POLITE = ("nice", "-n", "10")  # others train there


def choose(ends: Sequence[CopyingReport], *, local: bool) -> str:
    """Return the best that all ends have. `local`: all of them are this machine."""
    if local:
        return PLAIN
    if all(ZSTD in end.programs for end in ends):
        return ZSTD
    return GZIP if all(_gzip(end) for end in ends) else PLAIN


def _gzip(end: CopyingReport) -> str:
    """Return the program that reads and writes gzip's format; pigz does it on several cores."""
    return next((name for name in ("pigz", "gzip") if name in end.programs), "")


def packer(how: str, end: CopyingReport) -> tuple[str, ...]:
    """Return the command that packs stdin to stdout; nothing where it stays as it is."""
    if how == ZSTD:
        return (*_POLITE, "zstd", "-q", "-1", "-T4", "-c")
    return (*_POLITE, _gzip(end), "-1", "-c") if how == GZIP else ()


def unpacker(how: str, end: CopyingReport) -> tuple[str, ...]:
    """Return the command that undoes it."""
    if how == ZSTD:
        return ("zstd", "-q", "-d", "-c")
    return (_gzip(end), "-d", "-c") if how == GZIP else ()
