"""The bundles that were sent from here, kept: a run can run again although its host is gone.

They stand in the folder `bundles` of orch's cache (packs.py), each content once, so that an edit adds
what was edited. The store is bounded; what was used longest ago goes first.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import OrchError, reason
from orchestrator.inventory.find import cache_folder
from orchestrator.run.code.bundle import Bundle, Changed
from orchestrator.run.code.packs import Kept, Packing, Place, is_whole, manifests, read, trim

MOST = 2_000_000_000
"""Bytes that the store may take; a bundle larger than this is not kept."""

SPARED = 1_000_000_000
"""Bytes that stay free on its disk."""

_SEARCHED = 8
"""Bundles, newest first, in which content is looked for before it is written once more."""


def keep(bundle: Bundle, cache: Path | None = None) -> None:
    """Keep a bundle that was sent; a store that can't be written, or has no room, is no failure.

    `cache` is the folder of the store; None is orch's own cache. What is kept already costs a look at it.
    """
    store = _store(cache)
    with suppress(OSError):
        if is_whole(store / bundle.digest):
            os.utime(store / bundle.digest)
        elif bundle.size <= MOST and _free(store) > SPARED + bundle.size:
            _write(store, bundle)
            trim(store, bundle.digest, MOST)


def kept(digest: str, cache: Path | None = None) -> Kept | None:
    """Return a bundle of the store, or None. It counts as used now."""
    manifest = _store(cache) / digest
    found = read(manifest)
    if found is None or found.digest != digest or not is_whole(manifest):
        return None
    with suppress(OSError):
        os.utime(manifest)
    return found


def _store(cache: Path | None) -> Path:
    return (cache or cache_folder(os.environ)) / "bundles"


def packing(cache: Path | None = None) -> Packing:
    """Begin a pack for a bundle that comes from elsewhere. Raises OrchError."""
    store = _store(cache)
    try:
        return Packing(store)
    except OSError as error:
        raise OrchError(f"{store} can't be written: {reason(error)}") from error


def _free(store: Path) -> int:
    while not store.is_dir():
        store = store.parent
    return shutil.disk_usage(store).free


def _write(store: Path, bundle: Bundle) -> None:
    pack = Packing(store)
    known = _known(store, {entry.sha256 for entry in bundle.entries})
    try:
        for entry in bundle.entries:
            if entry.kind != "file" or entry.sha256 in pack.places:
                continue
            if entry.sha256 in known:
                pack.places[entry.sha256] = known[entry.sha256]
            else:
                pack.add(bundle.content(entry))
        pack.finish(bundle)
    except Changed:  # edited since it was sent: what was sent is not here any more
        pack.drop()
    except BaseException:
        pack.drop()
        raise


def _known(store: Path, wanted: set[str]) -> dict[str, Place]:
    """Return where contents stand already, as far as the newest bundles tell."""
    found: dict[str, Place] = {}
    for manifest in manifests(store)[:_SEARCHED]:
        if not wanted - found.keys():
            break
        bundle = read(manifest) if is_whole(manifest) else None
        if bundle:
            found.update((digest, bundle.places[digest]) for digest in wanted & bundle.places.keys())
    return found
