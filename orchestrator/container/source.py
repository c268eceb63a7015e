"""A team's own image: its Dockerfile and build context as one value, with a digest and as a tar stream.

What is in the context is what Docker would send: all of the folder but what `.dockerignore` leaves out,
links as links, modes as they are. Nothing is held in memory but names and digests.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from orchestrator.container.dockerfile import wrong_start
from orchestrator.container.dockerignore import Rules, rules
from orchestrator.container.identity import Identity
from orchestrator.errors import ConfigError, OrchError
from orchestrator.files.archive import TRAILER, gathered, member, padding, time_of
from orchestrator.inventory import Host
from orchestrator.render import digest
from orchestrator.units import how_many

IGNORE = ".dockerignore"

_CHUNK = 1 << 20

_NAMED = 1000
"""Files whose digests stand in a container's label: 16 bytes each, of 128 kB that a word may have."""

_DIGITS = 8


@dataclass(frozen=True)
class Entry:
    """One file, link or folder of the context; `path` uses `/`, `kind` is `f`, `l` or `d`."""

    path: str
    kind: str
    mode: int
    size: int = 0
    sha256: str = ""
    target: str = ""

    @cached_property
    def digest(self) -> str:
        """What of it counts: kind, mode, content or target. Times and owners do not."""
        return digest(self.kind, oct(self.mode), self.sha256, self.target)


@dataclass(frozen=True)
class Source:
    """A Dockerfile (`name`, in the context) and its context. `hidden`: sent, and not the context's own."""

    top: Path
    name: str
    text: str
    entries: tuple[Entry, ...]
    hidden: tuple[Entry, ...] = ()

    @cached_property
    def context_digest(self) -> str:
        """Names, modes and contents of everything but the Dockerfile."""
        return digest(*(word for e in self.entries if e.path != self.name for word in (e.path, e.digest)))

    @cached_property
    def digest(self) -> str:
        """The identity: label orch.source."""
        return digest(self.name, self.text, self.context_digest)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The identity part by part, short enough for a label; single files only where they are few."""
        files = {_short(e.path): _short(e.digest) for e in self.entries if e.path != self.name}
        named = (
            {"files": " ".join(f"{n}{d}" for n, d in sorted(files.items()))} if len(files) <= _NAMED else {}
        )
        return {"dockerfile": _short(self.text), "context": _short(self.context_digest), **named}

    def changed(self, then: Mapping[str, str]) -> Iterator[str]:
        """Yield what has changed since a time when `digests` was `then`, in words."""
        now = self.digests
        if then.get("dockerfile") != now["dockerfile"]:
            yield f"{self.name} changed"
        if then.get("context") != now["context"]:
            yield self._changed_files(then.get("files"), now.get("files"))

    def _changed_files(self, then: str | None, now: str | None) -> str:
        if then is None or now is None:
            return "the build context changed"
        differing = {word[:_DIGITS] for word in {*then.split()} ^ {*now.split()}}
        names = [e.path for e in self.entries if _short(e.path) in differing and e.kind != "d"]
        count = len(differing - {_short(e.path) for e in self.entries if e.kind == "d"}) or len(differing)
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        return f"{how_many(count, 'file')} of the build context changed" + (f": {shown}" if shown else "")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(e.size for e in self.entries)

    @property
    def count(self) -> int:
        """Number of files and links."""
        return sum(e.kind != "d" for e in self.entries)

    def holds(self, path: str) -> bool:
        """Whether a file or folder is in the context."""
        return any(e.path == path for e in self.entries)

    def tag(self, identity: Identity) -> str:
        """Return the name of the image that is built of it."""
        return f"orch/{identity.person.slug}-{identity.project.slug}-base:{self.digest[:12]}"

    def listing(self) -> str:
        """Return what is sent, a line each: mode, size, path."""
        return "\n".join(f"{e.kind} {e.mode:04o} {e.size:>10} {e.path}" for e in self.entries)

    def tar(self) -> Iterator[bytes]:
        """Return the context as a tar stream. Raises OrchError when a file is not what it was."""
        return gathered(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        for entry in (*self.entries, *self.hidden):
            if entry.kind == "l":
                yield member(entry.path, mode=0o777, target=entry.target)
            elif entry.kind == "d":
                yield member(entry.path, mode=entry.mode, folder=True)
            else:
                yield member(entry.path, mode=entry.mode, size=entry.size, mtime=time_of(entry.sha256))
                yield from self._content(entry)
                yield padding(entry.size)
        yield TRAILER

    def _content(self, entry: Entry) -> Iterator[bytes]:
        total, left = hashlib.sha256(), entry.size
        changed = OrchError(f"{entry.path} changed while the build context was sent", hint="Deploy again.")
        try:
            with open(self.top / entry.path, "rb", buffering=0) as file:
                while data := file.read(min(_CHUNK, left + 1)):
                    total.update(data)
                    left -= len(data)
                    if left < 0:
                        raise changed
                    yield data
        except OSError as error:
            raise changed from error
        if left or total.hexdigest() != entry.sha256:
            raise changed


_ONE_AT_A_TIME = threading.Lock()  # all hosts of a deploy ask for the same


def read_source(host: Host) -> Source | None:
    """Read the Dockerfile and the context that a host's settings name; None where they name none.

    Raises ConfigError with the place of the setting, or the file and line, for what can't be built.
    """
    settings = host.settings
    if not (settings.dockerfile or settings.build_context):
        return None
    if settings.image:
        raise ConfigError(
            "image and dockerfile are both set, and only one can be built on",
            where=host.came_from("image"),
            hint=f"Leave one of them empty (dockerfile: {host.came_from('dockerfile')}).",
        )
    top = Path(settings.build_context or os.path.dirname(settings.dockerfile or ""))
    file = Path(settings.dockerfile or top / "Dockerfile")
    setting = "dockerfile" if settings.dockerfile else "build_context"
    if not top.is_dir():
        raise ConfigError(f"build_context: {top} is no folder", where=host.came_from(setting))
    name = _within(host, file, top)
    with _ONE_AT_A_TIME:
        return _Reading(host, top).source(name, _dockerfile(host, setting, file))


def _within(host: Host, file: Path, top: Path) -> str:
    inside = os.path.relpath(file, top)
    if inside.split(os.sep)[0] == "..":
        raise ConfigError(
            f"dockerfile: {file} is outside of the build context {top}",
            where=host.came_from("dockerfile"),
            hint=f"Set build_context to a folder around it ({host.came_from('build_context')}).",
        )
    return inside.replace(os.sep, "/")


def _dockerfile(host: Host, setting: str, file: Path) -> str:
    try:
        text = file.read_bytes().decode()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"{setting}: {file}: {why}", where=host.came_from(setting)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{setting}: {file} is not UTF-8 text", where=host.came_from(setting)) from error
    wrong = wrong_start(text)
    if wrong:
        raise ConfigError(wrong[1], where=f"{file}:{wrong[0]}")
    return text


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]


class _Reading:
    """One walk through a context."""

    def __init__(self, host: Host, top: Path) -> None:
        self._where = host.came_from("build_context" if host.settings.build_context else "dockerfile")
        self._top = top

    def source(self, name: str, text: str) -> Source:
        found = tuple(sorted(self._folder("", self._rules(name)), key=lambda e: os.fsencode(e.path)))
        sent = {e.path for e in found}
        # The builder needs them also where they are left out, and then takes them out of the context itself.
        needed = [n for n in (name, IGNORE) if n not in sent and (self._top / n).is_file()]
        hidden = tuple(e for n in needed for e in [self._entry(n, os.lstat(self._top / n))] if e)
        return Source(self._top, name, text, found, hidden)

    def _rules(self, name: str) -> Rules:
        """Return what is left out, by `<Dockerfile>.dockerignore` where there is one, as BuildKit does."""
        for file in (self._top / f"{name}{IGNORE}", self._top / IGNORE):
            try:
                return rules(file.read_bytes().decode("utf-8", "surrogateescape"))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._unreadable(file.name, error) from error
            except ValueError as error:
                line, _, why = str(error).removeprefix("line ").partition(": ")
                raise ConfigError(why, where=f"{file}:{line}") from error
        return rules("")

    def _folder(self, base: str, now: Rules) -> Iterator[Entry]:
        try:
            with os.scandir(self._top / base) as listing:
                items = list(listing)
        except OSError as error:
            raise self._unreadable(base, error) from error
        for item in items:
            path = f"{base}/{item.name}" if base else item.name
            if not now.left_out(path):
                entry = self._entry(path, item.stat(follow_symlinks=False))
                yield from [entry] if entry else []
            if item.is_dir(follow_symlinks=False):
                beneath = now.beneath(path)
                yield from self._folder(path, beneath) if beneath else ()

    def _entry(self, path: str, status: os.stat_result) -> Entry | None:
        """Return what is sent of a path; sockets, pipes and devices are not."""
        file, mode = self._top / path, stat.S_IMODE(status.st_mode)
        try:
            if stat.S_ISLNK(status.st_mode):
                return Entry(path, "l", 0o777, target=os.readlink(file))
            if stat.S_ISDIR(status.st_mode):
                return Entry(path, "d", mode)
            if stat.S_ISREG(status.st_mode):
                return Entry(path, "f", mode, status.st_size, _sha256(str(file), *_unchanged(status)))
        except OSError as error:
            raise self._unreadable(path, error) from error
        return None

    def _unreadable(self, path: str, error: OSError) -> ConfigError:
        why = (error.strerror or str(error)).lower()
        return ConfigError(
            f"build_context: {self._top / path}: {why}",
            where=self._where,
            hint=f"Make it readable, or put it into {self._top / IGNORE}.",
        )


def _unchanged(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@lru_cache(maxsize=100_000)
def _sha256(file: str, *_unchanged: int) -> str:
    """Return a file's digest; remembered for the hosts that build the same, while the file is the same."""
    total = hashlib.sha256()
    with open(file, "rb", buffering=0) as opened:
        while data := opened.read(_CHUNK):
            total.update(data)
    return total.hexdigest()
