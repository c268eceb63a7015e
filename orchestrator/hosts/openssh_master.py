"""One ssh program that holds a connection open for many sessions (ControlMaster), ended with its user."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_said import Said
from orchestrator.hosts.ssh_config import Route, own_config

_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_LOOK = 0.01  # seconds between two looks whether the socket is there
_LOG = 1 << 20  # bytes of the log that are read
_ALIVE = ("ServerAliveInterval=15", "ServerAliveCountMax=3")  # a frozen peer is gone after 45 s
_NOTHING_ELSE = ("ClearAllForwardings=yes", "RemoteCommand=none", "ControlPersist=no", "BatchMode=yes")

# However orch ends, its end of the pipe closes, which ends the program.
_WATCHED = 'exec 3<&0; (read -r _ <&3; kill "$$") >/dev/null 2>&1 & exec 3<&- "$@" </dev/null'

# `nohup` would not do: ssh takes the signal back.
_ALONE = (
    "import os, sys; os.setsid(); os.dup2(os.open(os.devnull, os.O_WRONLY), 2); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


def words(route: Route, path: str, args: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the command line of a master. The first value of an option counts: ours come first."""
    all_options = [word for option in options for word in ("-o", option)]
    target = ["-l", route.user, "-p", str(route.port), "--", route.name]
    return ["ssh", "-NTMxa", "-S", path, *all_options, *own_config(args), *args, *target]


def through(path: str) -> str:
    """Return the ProxyCommand that goes through the host whose master listens at `path`."""
    # without its master it would connect by itself: `false` keeps it from that
    line = f"ssh -F none -S {shlex.quote(path)} -o ControlMaster=no -o ProxyCommand=false -W "
    return line.replace("%", "%%") + "[%h]:%p jump"


def lastingly(proxy: str) -> str:
    """Return a ProxyCommand that goes on when the terminal is closed, and says nothing on it."""
    return f"{shlex.quote(sys.executable)} -Ic {shlex.quote(_ALONE)} {proxy}"


class Master:
    """A running ssh program and its socket."""

    def __init__(self, route: Route, path: str, args: Sequence[str], options: Sequence[str]) -> None:
        self.path, self._closed = path, False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the program
        fixed = [*options, *_ALIVE, *_NOTHING_ELSE]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHED, "sh", *words(route, path, ("-v", *args), fixed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is ours
        )

    def is_up(self, limit: Limit) -> bool:
        """Wait until it has logged in; False when it has ended, or the time is over."""
        while self.running and not limit.over:
            if os.path.exists(self.path):  # it is made when the login is done
                return True
            time.sleep(_LOOK)
        return False

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def said(self) -> Said:
        """Return what it has told so far, the end of it where that is much."""
        number = self._log.fileno()
        start = max(0, os.fstat(number).st_size - _LOG)
        # not by `seek`: the program writes at the same position
        return Said(os.pread(number, _LOG, start).decode("utf-8", "replace"))

    def close(self) -> None:
        """End it, with all that it started."""
        if self._closed:  # its number may be another's by now
            return
        self._closed = True
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self._signal(signal.SIGKILL)  # what it started may still be there
        self._process.wait()
        assert self._process.stdin
        self._process.stdin.close()
        self._log.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
