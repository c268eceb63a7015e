"""Where the sockets of ssh masters lie: orch's own, those of `orch login`, and the user's ControlPath."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat

from orchestrator.errors import ConfigError
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_mux import is_alive
from orchestrator.hosts.ssh_config import Route

_LOGIN = "login-"
_GREETING_SECONDS = 3.0  # a live master greets at once; one that stands still is as none


def folder() -> str:
    """Return the folder of orch's sockets, made if need be. Raises ConfigError.

    In /tmp: a socket's path has some 100 bytes at most, and cron must find what `orch login` left.
    """
    path = _folder()
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigError(f"can't be made: {error.strerror}", where=path) from error
    if not _is_ours(path):
        raise ConfigError(
            "is not a folder that only you can read", where=path, hint="Remove it, or mend its owner and mode"
        )
    return path


def _folder() -> str:
    return f"/tmp/orch-{os.getuid()}"


def _is_ours(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def fresh() -> str:
    """Return a path for a socket of this call."""
    return os.path.join(folder(), secrets.token_hex(6))


def of_login(route: Route) -> str:
    """Return the path of the socket that `orch login` keeps for a host."""
    way = (route.user, route.address, route.port, route.key_alias, route.jump, route.command)
    return os.path.join(_folder(), _LOGIN + hashlib.sha256(repr(way).encode()).hexdigest()[:16])


def all_kept() -> list[str]:
    """Return the sockets of all that `orch login` keeps, alive or not."""
    if not _is_ours(_folder()):
        return []
    return sorted(os.path.join(_folder(), n) for n in os.listdir(_folder()) if n.startswith(_LOGIN))


def kept(route: Route) -> str | None:
    """Return the socket that `orch login` keeps for a host, if it is there and lives."""
    path = of_login(route)
    return path if _is_ours(_folder()) and is_alive(path, Limit(_GREETING_SECONDS)) else None


def live(route: Route) -> str | None:
    """Return the socket of a live master for a host: of `orch login`, else the user's own (ControlPath)."""
    own = route.control_path
    return kept(route) or (own if own and is_alive(own, Limit(_GREETING_SECONDS)) else None)
