"""A file here until it is whole: what came of it before a cut is kept for the next try."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import time
from pathlib import Path

PART = ".orch-part-"
"""How the name of a file begins until it is whole."""

_CHUNK = 1 << 20
_OLD = 86_400.0  # seconds after which a part that no try goes on with is cleared away
_HOLE = 1 << 12  # zeros are left out where a file system can: in pieces of its usual block


class Part:
    """The part file beside `to`, of a name that the next try finds again; this process has it alone.

    Use as a context manager: what came stays when the connection goes, unless it is not `lasting`, and is
    removed when it can't be written. `mode`: of the file, less the umask.
    """

    def __init__(self, to: Path, mode: int = 0o666, *, lasting: bool = True) -> None:
        self.to, self._lasting = to, lasting
        self.path, self._file = _opened(to, mode)
        self._placed = False

    @property
    def size(self) -> int:
        """Bytes that are here."""
        return os.fstat(self._file).st_size

    def digest(self) -> str:
        """Return the SHA-256 of what is here, in hex digits."""
        total, at = hashlib.sha256(), 0
        while data := os.pread(self._file, _CHUNK, at):
            total.update(data)
            at += len(data)
        return total.hexdigest()

    def begin(self, at: int) -> None:
        """Go on at a byte: what is here behind it goes."""
        os.ftruncate(self._file, at)
        os.lseek(self._file, at, os.SEEK_SET)

    def write(self, data: bytes) -> None:
        """Add bytes. Zeros become a hole: a sparse file stays one."""
        if len(data) >= _HOLE and not any(data):
            os.lseek(self._file, len(data), os.SEEK_CUR)
            return
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def settle(self) -> None:
        """Give the file the size that was written, where a hole is last."""
        os.ftruncate(self._file, os.lseek(self._file, 0, os.SEEK_CUR))

    def place(self, mtime: float, *, executable: bool) -> None:
        """Make it the file that it is meant to be, with one step."""
        self.settle()
        mode = stat.S_IMODE(os.fstat(self._file).st_mode) & 0o666  # less the umask
        os.fchmod(self._file, mode | (mode & 0o444) >> 2 if executable else mode)
        os.utime(self._file, (mtime, mtime))
        self.path.replace(self.to)
        self._placed = True

    def place_new(self) -> None:
        """Make it a file that is not there yet, safe on the disk. Raises FileExistsError where one is."""
        self.settle()
        os.fsync(self._file)
        try:
            os.link(self.path, self.to)  # unlike a rename, it takes nobody's place
        except OSError as error:
            if os.path.lexists(self.to):
                raise FileExistsError(self.to) from error
            self.path.replace(self.to)  # the disk has no hard links
        else:
            self.drop()
        self._placed = True

    def link(self, target: str, mtime: int) -> None:
        """Make `to` a link, with one step."""
        link = self.path.with_name(f"{self.path.name}-link")
        link.unlink(missing_ok=True)  # of one that was killed: the part is ours alone
        link.symlink_to(target)
        os.utime(link, (mtime, mtime), follow_symlinks=False)
        link.replace(self.to)

    def drop(self) -> None:
        """Remove what is here."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Part:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with contextlib.suppress(OSError):
            if not self._placed:
                if isinstance(error, OSError) or not self._lasting or not self.size:
                    self.drop()
                else:
                    self.settle()
        os.close(self._file)


def write_whole(to: Path, text: str, mode: int = 0o666) -> None:
    """Write a file whole or not at all, whoever else does so at the same time. Raises OSError."""
    with Part(to, mode, lasting=False) as part:
        part.begin(0)
        part.write(text.encode("utf-8", "surrogateescape"))
        part.place(time.time(), executable=False)


def _opened(to: Path, mode: int) -> tuple[Path, int]:
    """Open and lock the part of a file; one of another name where another process has that."""
    name = hashlib.sha256(os.fsencode(to.name)).hexdigest()[:16]
    for path in (part_of(to), to.parent / f"{PART}{name}-{secrets.token_hex(8)}"):
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(os.lstat(path).st_mode):
                path.unlink()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        if _locked(file, path):
            return path, file
        os.close(file)
    raise AssertionError("a name that nobody else can have")


def clear_away(folder: Path) -> None:
    """Remove the parts in a folder that programs that were killed have left, and no later try would find.

    Those are of fetches that ran beside another one of the same file. Nobody's that lives is touched: a lock
    says so, and where a disk has none, the day that a part must be old.
    """
    for path in folder.glob(f"{PART}*-*"):
        with contextlib.suppress(OSError):
            found = os.lstat(path)  # not its mtime, which is the original's just before it is placed
            if time.time() - found.st_ctime <= _OLD:
                continue
            if stat.S_ISREG(found.st_mode):
                _remove_unless_locked(path)
            elif stat.S_ISLNK(found.st_mode):
                path.unlink()


def _remove_unless_locked(path: Path) -> None:
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _locked(file, path):
            path.unlink()
    finally:
        os.close(file)


def part_of(to: Path) -> Path:
    """Return where the part of a file lies that is to come to `to`."""
    return to.parent / f"{PART}{hashlib.sha256(os.fsencode(to.name)).hexdigest()[:16]}"


def _locked(file: int, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this disk
        return True
    try:  # who had it may have put it in its place meanwhile
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False
