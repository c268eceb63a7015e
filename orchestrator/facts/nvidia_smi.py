"""What nvidia-smi prints: cells that may be absent or a fault, rows among other lines, and its complaints.

Drivers say "absent" in many ways (`[N/A]`, `[Not Supported]`, `[Requested functionality has been
deprecated]`, ...): anything in brackets is absent, and three of them mean that the GPU is broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ABSENT = frozenset({"", "n/a", "not supported", "none"})
FAULTS = {
    "unknown error": "Unknown Error",
    "gpu is lost": "GPU is lost (reboot or reset)",
    "gpu requires reset": "GPU requires reset (nvidia-smi --gpu-reset, or reboot)",
    "err!": "ERR!",
}

COMPLAINTS: tuple[tuple[str, str], ...] = (
    (
        "Driver/library version mismatch",
        "The driver was updated under a running kernel: reboot, or reload the nvidia modules, "
        "not while a job runs",
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        "The driver is not loaded (a new kernel without dkms, or nouveau in its place): "
        "see lsmod | grep -e nvidia -e nouveau and modinfo -F version nvidia",
    ),
    ("No devices were found", "The driver runs but sees no GPU: see dmesg | grep -i nvrm; a reboot may help"),
    (
        "No supported GPUs were found",
        "Another driver (vfio?) has the GPUs: see lspci -nnk -d 10de:",
    ),
    ("GPU is lost", "Reboot the host to recover the GPU"),
    ("Unable to determine the device handle", "A GPU fell off the bus: see dmesg | grep -i xid, then reboot"),
    ("GPU access blocked by the operating system", "On Windows: wsl --shutdown, and update the driver there"),
    ("Insufficient Permissions", "Let the account use /dev/nvidia* (group video or render; SELinux?)"),
    ("couldn't find libnvidia-ml", "Install the NVIDIA driver, or put its folder into LD_LIBRARY_PATH"),
    (
        "Failed to initialize NVML: Unknown Error",
        "A container that lost its GPUs: make it anew",
    ),
    ("is not a valid field to query", "Update the NVIDIA driver"),
    ("Unknown Error", "See dmesg | grep -i -e nvrm -e xid"),
)
"""A part of what nvidia-smi says in place of rows, and what to do. First match wins."""

SLOW = "nvidia-smi did not answer in 20 s"
SLOW_HINT = "Turn on persistence mode (nvidia-smi -pm 1); if it stays so, the driver hangs: reboot"

_UNIT = re.compile(r"\s*(MiB|MB|%|W|C)\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


def is_absent(text: str) -> bool:
    """Whether a cell holds no value, in any driver's words."""
    return text.lower() in ABSENT or (text.startswith("[") and text.endswith("]")) or text == "ERR!"


def fault(text: str) -> str | None:
    """Return what is broken when a cell says so, else None."""
    return FAULTS.get(text.strip("[] ").lower()) if is_absent(text) else None


def number(text: str) -> float | None:
    """Return a cell's number, its unit taken off; None when it is absent or no number."""
    bare = _UNIT.sub("", text)
    return float(bare) if _NUMBER.match(bare) else None


def hint(message: str) -> str | None:
    """Return what to do about a complaint of nvidia-smi, None when it is not a known one."""
    return next((what for part, what in COMPLAINTS if part.lower() in message.lower()), None)


@dataclass(frozen=True)
class Answer:
    """The rows of one query, each as its cells by field, and the other lines that were printed."""

    rows: tuple[dict[str, str], ...]
    messages: tuple[str, ...]


def rows(lines: Sequence[str], fields: Sequence[str], free_text: str) -> Answer:
    """Part CSV lines into rows and messages.

    A line with fewer cells than fields, or with no number and no UUID at its start, is a message; a header is
    dropped. Commas inside the one field of free text do not matter.
    """
    found, messages = [], []
    for line in (raw.strip() for raw in lines):
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == fields[0]:
            continue
        if len(cells) >= len(fields) and _starts_row(cells[0]):
            found.append(_by_field(cells, fields, free_text))
        elif line:
            messages.append(line)
    return Answer(tuple(found), tuple(messages))


def _starts_row(cell: str) -> bool:
    return cell.isdecimal() or cell.startswith(("GPU-", "MIG-", "["))


def _by_field(cells: Sequence[str], fields: Sequence[str], free_text: str) -> dict[str, str]:
    """Join the cells that a comma in the free text made too many."""
    at, extra = fields.index(free_text), len(cells) - len(fields)
    joined = [*cells[:at], ", ".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]
    return dict(zip(fields, joined, strict=True))
