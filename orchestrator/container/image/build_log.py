"""What a build said, whole, kept on this machine when it failed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from orchestrator.inventory.find import cache_folder

KEPT = 20
"""Logs that are kept; older ones go."""


def keep_log(host: str, text: str) -> Path | None:
    """Write a failed build's log and return its file; None where this machine has no place for it."""
    folder = cache_folder(os.environ) / "builds"
    file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{host.replace('/', '_')}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8", errors="surrogateescape")
        for old in sorted(folder.glob("*.log"))[:-KEPT]:
            old.unlink()
    except OSError:
        return None
    return file
