"""Which inventory files count: named ones, else the user's own and the nearest one upwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.inventory.source import shown

NAME = "hosts.ini"


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own settings: $XDG_CONFIG_HOME/orch, else ~/.config/orch."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "orch"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return orch's own cache folder (XDG Base Directory)."""
    root = environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "orch"


def find_files(cwd: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the inventory files to read, the later laid over the earlier.

    ORCH_INVENTORY (paths joined by `:`), else the user's hosts.ini and the nearest one from `cwd` upwards.
    """
    named = environ.get("ORCH_INVENTORY")
    if named:
        return [cwd / Path(name).expanduser() for name in named.split(os.pathsep) if name]
    own = config_folder(environ) / NAME
    found = [own] if own.is_file() else []
    for folder in (cwd, *cwd.parents):
        path = folder / NAME
        if path.is_file():
            _refuse_planted(path)
            return found if path == own else [*found, path]
    return found


def _refuse_planted(path: Path) -> None:
    """A hosts.ini that somebody put into /tmp must not choose commands and hosts for everyone below."""
    file, folder = path.stat(), path.parent.stat()
    if folder.st_mode & stat.S_IWOTH and file.st_uid not in (os.getuid(), 0):
        raise ConfigError(
            "this file is somebody else's, in a folder that everybody can write to",
            where=shown(path),
            hint="If you trust it, name it: --inventory",
        )
