"""A worker's log as a file here: the host's bytes, gone on with where an earlier call stopped."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.errors import Busy, UsageError
from orchestrator.logs.session import REMEMBERED, Piece, Position
from orchestrator.run.code.ignore import FETCHED


class Saved:
    """`FOLDER/HOST.log`; a log that was truncated or replaced on its host goes on in `HOST.2.log`.

    A note beside it, `.HOST.log.json`, says which run's it is and which file of the host it has.
    The note is always written before the bytes, so that a call that is killed can be gone on with.
    Raises UsageError when the file is another's, OSError when it can't be written.
    """

    def __init__(self, folder: Path, host: str, run: str) -> None:
        self._folder, self._host, self._run = folder, host, run
        self._note = folder / f".{host}.log.json"
        self._file: int | None = None
        self.name, self._inode = self._taken_up()
        self.position = self._reached()

    @property
    def path(self) -> Path:
        """The file."""
        return self._folder / self.name

    def _taken_up(self) -> tuple[str, str]:
        first = f"{self._host}.log"
        try:
            noted: dict[str, Any] = json.loads(self._note.read_bytes())
            run, name, inode = str(noted["run"]), str(noted["file"]), str(noted["inode"])
        except FileNotFoundError:
            if os.path.lexists(self._folder / first):
                raise _not_ours(self._folder / first, "is there, and not written by orch tail") from None
            return first, ""
        except (ValueError, KeyError, TypeError):
            raise _not_ours(self._note, "is no note of orch tail") from None
        if run != self._run:
            raise _not_ours(self._folder / name, f"is the log of run {run}")
        return name, inode

    def _reached(self) -> Position:
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - REMEMBERED))
            return Position(self._inode, size, file.read())
        return Position(self._inode)

    def write(self, piece: Piece) -> None:
        """Append a piece; the first one of a session says which of the host's files it is of."""
        if piece.fresh and self.position.offset:
            self._leave()
        if not piece.data:
            return self._begin(piece.inode)
        assert self._file is not None
        data = memoryview(piece.data)
        while data:
            data = data[os.write(self._file, data) :]
        self.position = self.position.after(piece.data)
        return None

    def _leave(self) -> None:
        """Go on in a file of the next number."""
        self.close()
        number = 2
        while os.path.lexists(self._folder / f"{self._host}.{number}.log"):
            number += 1
        self.name, self._inode, self.position = f"{self._host}.{number}.log", "", Position()

    def _begin(self, inode: str) -> None:
        if inode != self._inode or not self._note.exists():
            part = self._note.with_suffix(".part")
            part.write_text(json.dumps({"run": self._run, "file": self.name, "inode": inode}) + "\n")
            part.replace(self._note)
            self._inode = inode
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _not_ours(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} {why}", hint="Name another folder with --output.")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make the folder and keep it for this call alone. Raises Busy when another one writes there.

    A folder that it makes is marked as fetched, so that the logs are not sent back as code.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if made:
        (folder / FETCHED).touch()
    with (folder / ".orch-tail.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("another orch tail writes there", where=str(folder)) from None
        yield
