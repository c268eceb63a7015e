"""Bringing a bundle from a host into the store of those that are kept here."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import HostError, LostConnection, OrchError, reason
from orchestrator.files.archive import incoming
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.run.code.bundle import Bundle, Entry
from orchestrator.run.code.kept import packing
from orchestrator.run.code.packs import Kept, Packing

_CHUNK = 1 << 18

_NOT_THERE = 3
"""The script's exit status where there is no such bundle; tar has 1 and 2."""


def fetch_bundle(machine: Machine, place: str, digest: str, *, cache: Path | None = None) -> Kept:
    """Bring a bundle from `place` (the project's folder on the host) and keep it: one exec, one stream.

    Raises HostError when it is not there, or not what its digest says; LostConnection; OrchError when it
    can't be kept here. What failed leaves nothing.
    """
    pack = packing(cache)
    try:
        bundle = Bundle(pack.store, _entries(machine, _script(place, digest), pack))
        if bundle.digest != digest:
            raise HostError(
                f"bundle {digest[:6]} is not what was sent: somebody changed it", where=machine.host.name
            )
        return pack.finish(bundle)
    except OSError as error:
        pack.drop()
        why = reason(error)
        raise OrchError(f"{pack.store} can't be written: {why}") from error
    except BaseException:
        pack.drop()
        raise


def _script(place: str, digest: str) -> Script:
    return Script("send", render("run/bundle_out.sh.j2", place=on_host(place).text, digest=digest))


def _entries(machine: Machine, script: Script, pack: Packing) -> tuple[Entry, ...]:
    where, why = machine.host.name, ""
    found: tuple[Entry, ...] = ()
    with machine.stream(script) as stream:
        try:
            with incoming(stream.read) as archive:
                found = tuple(_taken(archive, pack))
        except tarfile.TarError as error:
            why = str(error)
        said = stream.read_error().decode("utf-8", "replace").strip().split("\n")[0]
        status = stream.status()
    if status == _NOT_THERE:
        raise HostError(said, where=where)
    if status or why:
        raise LostConnection(f"the code did not come whole: {said or why}", where=where, hint="Try again.")
    return tuple(sorted(found, key=lambda entry: os.fsencode(entry.path)))


def _taken(archive: tarfile.TarFile, pack: Packing) -> Iterator[Entry]:
    """Yield what comes; of folders only the empty ones count."""
    folders: set[str] = set()
    full: set[str] = set()
    files: dict[str, Entry] = {}
    for member in archive:
        path = member.name.removeprefix("./")
        full.add(os.path.dirname(path))
        if member.isdir():
            folders.add(path)
        elif member.issym():
            yield Entry(path, "link", target=member.linkname)
        elif member.islnk():  # where the host's tar can't but say so
            twin = files[member.linkname.removeprefix("./")]
            yield Entry(path, "file", twin.executable, twin.size, twin.sha256)
        elif member.isreg():
            files[path] = _file(archive, member, path, pack)
            yield files[path]
    yield from (Entry(path, "dir") for path in folders - full - {"", "."})


def _file(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, pack: Packing) -> Entry:
    content = archive.extractfile(member)
    assert content is not None
    digest, size = pack.add(iter(lambda: content.read(_CHUNK), b""))
    return Entry(path, "file", bool(member.mode & 0o100), size, digest)
