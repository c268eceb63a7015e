"""Reading at any place of many files, from several threads at once."""

from __future__ import annotations

import os
import threading
from typing import Dict, Tuple

KEPT = 256
"""Files that stay open; a process may have 1024 in all."""


class Files:
    """Paths, and those of them that are open."""

    def __init__(self, paths: Tuple[str, ...]) -> None:
        self.paths = paths
        self._open: Dict[int, int] = {}
        self._lock = threading.Lock()

    def read(self, file: int, offset: int, length: int) -> bytes:
        """So many bytes of a file from there on. Raises OSError, also when it ends before."""
        descriptor, kept = self._opened(file)
        try:
            found = os.pread(descriptor, length, offset)
        finally:
            if not kept:
                os.close(descriptor)
        if len(found) < length:
            raise OSError(0, "has become shorter while it was read", self.paths[file])
        return found

    def _opened(self, file: int) -> Tuple[int, bool]:
        with self._lock:
            if file in self._open:
                return self._open[file], True
            descriptor = os.open(self.paths[file], os.O_RDONLY)
            kept = len(self._open) < KEPT
            if kept:
                self._open[file] = descriptor
            return descriptor, kept
