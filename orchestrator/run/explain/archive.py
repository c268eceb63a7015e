"""What is known of a run in one file, to be sent to somebody: without secrets, as far as they can be told."""

from __future__ import annotations

import io
import os
import platform
import secrets
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator import __version__
from orchestrator.errors import HostError, OrchError, UsageError, reason
from orchestrator.files.archive import EPOCH
from orchestrator.files.part import Part
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from orchestrator.hosts.masking import masked, without_tokens
from orchestrator.render import render
from orchestrator.run.record import Record

MOST = 1_000_000
"""Bytes of each file's end that are taken: of the log, mostly."""


def files_of_worker(machine: Machine, record: Record) -> dict[str, bytes]:
    """Return the files of a worker's record, by name, in one exec. Raises HostError.

    launch.json is not among them: it holds values.
    """
    mark = f"orch-file-{secrets.token_hex(12)}"
    text = render("run/why_files.sh.j2", folder=record.folder, host=record.host, mark=mark, most=MOST)
    result = machine.ask(Script("why-files", text, asks=True))
    *pieces, end = result.out.split(f"\n{mark}".encode())[1:] or [b"cut"]
    if end.strip():
        raise HostError("it did not send all files of the record", where=machine.host.name)
    parts = (piece.partition(b"\n") for piece in pieces)
    return {os.fsdecode(name.strip()): data for name, _, data in parts}


def cleaned(data: bytes) -> bytes:
    """Return a file as text without secrets; of one that was cut, without the line that was cut through."""
    if len(data) >= MOST:
        data = data.partition(b"\n")[2]
    return without_tokens(masked(data.decode("utf-8", "replace"))).encode()


def versions() -> str:
    """Return what a reader of the archive needs to know of this machine."""
    try:
        asked = subprocess.run(["ssh", "-V"], capture_output=True, timeout=5, check=False)
        ssh = (asked.stderr or asked.stdout).decode("utf-8", "replace").strip()
    except (OSError, subprocess.SubprocessError):
        ssh = "none"
    lines = (f"orch {__version__}", f"Python {platform.python_version()}", f"ssh {ssh}", platform.platform())
    return "\n".join(lines) + "\n"


def check_new(path: Path) -> None:
    """Raise UsageError for a file that is there already, or whose folder isn't."""
    if os.path.lexists(path):
        raise _is_there(path)
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder", hint="Choose another place for the archive.")


def _is_there(path: Path) -> UsageError:
    return UsageError(f"{path} is there already", hint="Choose another name.")


def write(path: Path, folder: str, files: Mapping[str, bytes]) -> int:
    """Write a .tar.gz with the cleaned files below `folder`, for its owner alone; return its bytes.

    It appears whole or not at all, and never in the place of another. Raises UsageError, OrchError.
    """
    data = _packed(folder, {name: cleaned(data) for name, data in files.items()})
    try:
        with Part(path, 0o600, lasting=False) as part:
            part.begin(0)
            part.write(data)
            part.place_new()
    except FileExistsError as error:
        raise _is_there(path) from error
    except OSError as error:
        raise OrchError(f"{path} can't be written: {reason(error)}") from error
    return len(data)


def _packed(folder: str, files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size, info.mode, info.mtime = len(data), 0o600, EPOCH
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
