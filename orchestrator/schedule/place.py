"""The files of an entry on this machine: its lock, its log, and how its last firing went."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.errors import Busy, OrchError


@dataclass(frozen=True)
class Last:
    """How the last firing went; times are seconds since the epoch."""

    started: float
    ended: float
    status: int


class Place:
    """The files of one entry, in the user's state folder: NAME.lock, NAME.log, NAME.json."""

    def __init__(self, environ: Mapping[str, str], name: str) -> None:
        base = environ.get("XDG_STATE_HOME", "")
        state = Path(base) if base.startswith("/") else Path.home() / ".local/state"
        self._folder = state / "orch/schedule"
        self._name = name

    @property
    def log(self) -> Path:
        """Where the output of the firings goes."""
        return self._folder / f"{self._name}.log"

    def last(self) -> Last | None:
        """Return how the last firing went; None when there was none."""
        try:
            return Last(**json.loads(self._file("json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def remember(self, last: Last) -> None:
        """Keep how a firing went."""
        part = self._file("part")
        part.write_text(json.dumps(asdict(last)) + "\n", encoding="utf-8")
        part.replace(self._file("json"))

    def forget(self) -> None:
        """Forget the last firing. The log stays, and the lock: a firing may hold it."""
        self._file("json").unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the entry's lock; no child inherits it. Raises Busy when another firing holds it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._file("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise OrchError(f"can't write {self._folder}: {error.strerror}") from None
        try:
            _take(lock, self._name)
            yield
        finally:
            os.close(lock)

    def _file(self, kind: str) -> Path:
        return self._folder / f"{self._name}.{kind}"


def _take(lock: int, name: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy("the last one still runs; not started again", where=name) from None
