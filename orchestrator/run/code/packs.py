"""The files of the store of kept bundles: packs hold content, manifests say what a bundle holds, and where.

A pack is written once. A manifest is named by its bundle's digest and comes last, by a rename: a pack that
none names is nobody's.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import OrchError
from orchestrator.run.code.bundle import Bundle, Entry

_ABANDONED = 86_400.0
"""Seconds after which a pack without a manifest is what a killed orch left, and none that is being made."""

_CHUNK = 1 << 20

Place = tuple[str, int]
"""Where the content of a file begins: a pack's name, and bytes from its start."""


@dataclass(frozen=True)
class Kept(Bundle):
    """A bundle whose files are read from the store: `top` is its folder, `places` go by SHA-256."""

    places: Mapping[str, Place] = field(default_factory=dict, compare=False)

    def content(self, entry: Entry) -> Iterator[bytes]:
        """Yield the bytes of a file. Raises OrchError when the store is damaged."""
        pack, offset = self.places[entry.sha256]
        total, left = hashlib.sha256(), entry.size
        with suppress(OSError), open(self.top / pack, "rb", buffering=0) as source:
            source.seek(offset)
            while left and (data := source.read(min(_CHUNK, left))):
                total.update(data)
                left -= len(data)
                yield data
        if left or total.hexdigest() != entry.sha256:
            (self.top / self.digest).unlink(missing_ok=True)
            raise OrchError(f"the copy of bundle {self.short} in {self.top} is damaged, and is now forgotten")


class Packing:
    """A pack that is being written; `places` is where each content stands, there or in older packs."""

    def __init__(self, store: Path) -> None:
        store.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.store = store
        self.name = f"pack-{secrets.token_hex(8)}"
        self.places: dict[str, Place] = {}
        self._out = open(os.open(store / self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")  # noqa: SIM115
        self._size = 0

    def add(self, pieces: Iterator[bytes]) -> tuple[str, int]:
        """Write the content of a file, unless it stands in the pack already; return its SHA-256 and size."""
        begun, total = self._size, hashlib.sha256()
        for data in pieces:
            total.update(data)
            self._size += self._out.write(data)
        digest, size = total.hexdigest(), self._size - begun
        if digest in self.places:
            self._out.seek(begun)
            self._out.truncate()
            self._size = begun
        self.places.setdefault(digest, (self.name, begun))
        return digest, size

    def finish(self, bundle: Bundle) -> Kept:
        """Write the manifest, which makes the bundle kept."""
        self._out.close()
        kept = Kept(self.store, bundle.entries, bundle.notes, self.places)
        if all(pack != self.name for pack, _ in self.places.values()):
            (self.store / self.name).unlink()
        part = self.store / f"part-{secrets.token_hex(8)}"
        part.write_text(_manifest(kept), encoding="ascii")
        part.replace(self.store / bundle.digest)
        return kept

    def drop(self) -> None:
        """Leave nothing."""
        self._out.close()
        (self.store / self.name).unlink(missing_ok=True)


def _manifest(bundle: Kept) -> str:
    """Two lines of JSON: the packs with the bytes that they have to hold, then the entries."""
    packs: dict[str, int] = {}
    rows = []
    for e in bundle.entries:
        place = bundle.places[e.sha256] if e.kind == "file" else None
        if place:
            packs[place[0]] = max(packs.get(place[0], 0), place[1] + e.size)
        rows.append([e.path, e.kind, e.executable, e.size, e.sha256, e.target, place])
    return f"{json.dumps(packs)}\n{json.dumps(rows)}\n"


def _packs(manifest: Path) -> dict[str, int] | None:
    """Return the packs that a manifest needs, and how long each has to be; None when it makes no sense."""
    try:
        with manifest.open("rb") as opened:
            found: Any = json.loads(opened.readline())
        return {str(name): int(size) for name, size in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def is_whole(manifest: Path) -> bool:
    """Tell whether a manifest is there and its packs are as long as they have to be."""
    packs = _packs(manifest)
    try:
        return packs is not None and all(
            (manifest.parent / name).stat().st_size >= size for name, size in packs.items()
        )
    except OSError:
        return False


def read(manifest: Path) -> Kept | None:
    """Return what a manifest holds; None when it makes no sense."""
    try:
        rows = json.loads(manifest.read_bytes().split(b"\n")[1])
        entries = tuple(Entry(*row[:6]) for row in rows)
        places = {row[4]: (row[6][0], row[6][1]) for row in rows if row[6]}
    except (OSError, ValueError, IndexError, TypeError):
        return None
    return Kept(manifest.parent, entries, (), places)


def manifests(store: Path) -> list[Path]:
    """Return the manifests, the one last used first."""
    times: dict[Path, float] = {}
    for file in store.iterdir():
        with suppress(OSError):  # another orch may have trimmed it away
            if "-" not in file.name:
                times[file] = file.stat().st_mtime
    return sorted(times, key=lambda file: times[file], reverse=True)


def trim(store: Path, newest: str, most: int) -> None:
    """Remove what is more than `most` bytes, the longest unused first, and what killed programs left.

    The bundle `newest` stays, whatever its size.
    """
    total, used, gone = 0, set[str](), set[str]()
    for manifest in manifests(store):
        packs = _packs(manifest) or {}
        total += sum(_size(store / name) for name in {*packs, manifest.name} - used)
        if total > most and manifest.name != newest:
            manifest.unlink(missing_ok=True)
            gone |= packs.keys()
        else:
            used |= packs.keys()
    for file in [*store.glob("pack-*"), *store.glob("part-*")]:
        if file.name not in used and (file.name in gone or _age(file) > _ABANDONED):
            file.unlink(missing_ok=True)


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0


def _age(file: Path) -> float:
    with suppress(OSError):
        return time.time() - file.stat().st_mtime
    return 0.0
