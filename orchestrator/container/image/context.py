"""Reads a team's Dockerfile and build context.

What is in the context is what Docker would send: all of the folder but what `.dockerignore` leaves out,
links as links, modes as they are. Nothing is held in memory but names and digests.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from orchestrator.container.image.dockerfile import wrong_from
from orchestrator.container.image.dockerignore import Rules, rules
from orchestrator.container.image.source import IGNORE, Entry, Source
from orchestrator.errors import ConfigError, reason
from orchestrator.inventory import Host

_CHUNK = 1 << 20

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
        why = reason(error)
        raise ConfigError(f"{setting}: {file}: {why}", where=host.came_from(setting)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{setting}: {file} is not UTF-8 text", where=host.came_from(setting)) from error
    wrong = wrong_from(text)
    if wrong:
        raise ConfigError(wrong[1], where=f"{file}:{wrong[0]}")
    return text


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
        why = reason(error)
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
