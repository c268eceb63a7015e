"""How busy the GPUs are meanwhile, asked of nvidia-smi where there is one. Knows no TensorFlow."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from typing import Callable, List, Mapping, NamedTuple

PERIOD = 5.0
"""Seconds between two looks."""
LIMIT = 10.0
"""Seconds for an answer."""


class Load(NamedTuple):
    """One GPU at one moment; `memory` in MiB, `utilisation` in percent."""

    index: int
    utilisation: float
    memory: float


def command(environ: Mapping[str, str] = os.environ) -> List[str]:
    """What to call for the GPUs of this process; nothing where no program knows."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    given = environ.get("CUDA_VISIBLE_DEVICES")
    if program is None or given in ("", "-1"):
        return []
    query = ["--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    return [program, *query, *(["-i", given] if given else [])]


def parse(text: str) -> List[Load]:
    """Read `0, 87, 10240`, a line each; a GPU that doesn't tell (`[N/A]`) is left out."""
    found = []
    for line in text.splitlines():
        try:
            index, utilisation, memory = (float(field) for field in line.split(","))
        except ValueError:
            continue
        found.append(Load(int(index), utilisation, memory))
    return found


class Watch:
    """Looks every few seconds, in a thread of its own, and hands on what it saw."""

    def __init__(self, tell: Callable[[List[Load]], None], words: List[str], period: float = PERIOD) -> None:
        self.tell = tell
        self.words = words
        self.period = period
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def start(self) -> None:
        """Begin, where there is something to ask."""
        if self.words:
            self._thread.start()

    def close(self) -> None:
        """End it, and wait until it has."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        while not self._over.is_set():
            loads = self._ask()
            if not loads:
                return
            self.tell(loads)
            self._over.wait(self.period)

    def _ask(self) -> List[Load]:
        try:
            done = subprocess.run(
                self.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return parse(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else []
