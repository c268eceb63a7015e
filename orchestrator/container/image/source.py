"""A team's own image: its Dockerfile and build context as one value, with a digest and as a tar stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.container.identity import Identity
from orchestrator.errors import OrchError
from orchestrator.files.archive import TRAILER, Differs, content, gathered, member, padding, time_of
from orchestrator.render import digest
from orchestrator.units import how_many

IGNORE = ".dockerignore"

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
        try:
            yield from content(self.top / entry.path, entry.size, entry.sha256)
        except Differs as error:
            message = f"{entry.path} changed while the build context was sent"
            raise OrchError(message, hint="Deploy again.") from error


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
