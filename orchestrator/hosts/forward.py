"""A port of this machine that leads to one on the other side of a line, which is made anew after a cut."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.errors import Busy, HostError, LostConnection
from orchestrator.hosts.base import Machine, Tunnel
from orchestrator.hosts.line import connected_again
from orchestrator.hosts.platform import ready, tune

HERE = "127.0.0.1"

FORBIDDEN = "its sshd forbids forwarding (AllowTcpForwarding)"
"""What machines say where nothing is let through."""

PATIENCE = 60.0
"""Seconds that a connection waits for the line to come back."""

_TICK = 0.2  # seconds after which a wait begins anew: the line is looked at, and Ctrl-C is taken
_PIECE = 1 << 16


@dataclass(frozen=True)
class Way:
    """Where connections are opened, and what is closed with it. `machine` is the host or its container."""

    machine: Machine
    behind: Machine | None = None

    @property
    def alive(self) -> bool:
        """Whether it stands, as far as is known here."""
        return all(bool(getattr(m, "alive", True)) for m in (self.machine, self.behind) if m)

    def close(self) -> None:
        """Close it. Never raises."""
        for machine in (self.machine, self.behind):
            if machine:
                machine.close()


def way_to(machine: Machine, port: int | None, *, user: str, host_keys: Sequence[str]) -> Way:
    """Return the way to where a service listens: through the container's sshd at `port`, else the host's own.

    Raises HostError where forwarding is forbidden, or nobody answers.
    """
    if port is None:
        return Way(machine)
    from orchestrator.hosts.ssh import hop

    return Way(hop(machine, port, user=user, host_keys=host_keys), machine)


def check_forwarding(machine: Machine, what: str) -> None:
    """Raise HostError where the host's sshd lets nothing through; other refusals are no matter here."""
    try:
        machine.tunnel(1).close()  # tcpmux: hardly anybody answers, and that says enough
    except LostConnection:
        raise
    except HostError as error:
        if error.message == FORBIDDEN:
            said = f"{error.message}, so {what} can't be reached"
            hint = "Its administrator can allow it: AllowTcpForwarding local, in its sshd_config."
            raise HostError(said, where=error.where, hint=hint) from error


def listener(port: int | None, preferred: int) -> socket.socket:
    """Return a socket that listens here: on `port`, else on `preferred` where it is free, else on any.

    Raises Busy where `port` is taken.
    """
    for number in (port,) if port else (preferred, 0):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HERE, number))
            sock.listen(64)
        except OSError as error:
            sock.close()
            if port:
                raise Busy(f"port {port} of this machine can't be had: {error.strerror}") from error
            continue
        return sock
    raise Busy("no port of this machine is free")


class _Over(Exception):
    """Nobody needs the way any more."""


class Forward:
    """Hands each connection to `sock` on to 127.0.0.1:`port` of a way, which `reconnect` makes anew.

    `told` hears what a person should know, a line each.
    """

    def __init__(
        self,
        sock: socket.socket,
        port: int,
        way: Way,
        reconnect: Callable[[], Way],
        told: Callable[[str], None],
    ) -> None:
        self._sock, self._port, self._told = sock, port, told
        self._way = way
        self._cut: Way | None = None  # found so by a connection
        self._host, self._reconnect = way.machine.host.name, reconnect
        self.refused = threading.Event()  # nobody answered there

    def serve(self, meanwhile: Callable[[], bool]) -> None:
        """Serve until `meanwhile`, which is called several times a second, says that it is over."""
        while not meanwhile():
            if not self._stands(self._way) and not self._again(meanwhile):
                return
            if ready({self._sock.fileno()}, seconds=_TICK):
                connection, _ = self._sock.accept()
                threading.Thread(target=self._carry, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and end those that are."""
        self._sock.close()
        self._way.close()

    def _stands(self, way: Way) -> bool:
        return way is not self._cut and way.alive

    def _again(self, meanwhile: Callable[[], bool]) -> bool:
        """Make the way anew, however long it takes; return False where it is over before that."""
        self._told(f"{self._host}: connection lost, connecting again")
        self._way.close()
        made: list[Way] = []

        def once() -> Machine:
            made.append(self._reconnect())
            return made[0].machine

        def sleep(seconds: float) -> None:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                if meanwhile():
                    raise _Over
                time.sleep(_TICK)

        try:
            connected_again(self._host, once, float("inf"), sleep, self._told)
        except _Over:
            return False
        self._way = made[0]
        self._told(f"{self._host}: connected again")
        return True

    def _carry(self, here: socket.socket) -> None:
        """Open the other half of a connection, and move bytes both ways until one side ends."""
        with contextlib.closing(here):
            there = self._opened()
            if there is None:
                return
            with contextlib.closing(there), contextlib.suppress(OSError):
                tune(here)
                back = threading.Thread(target=_move, args=(there, here), daemon=True)
                back.start()
                _move(here, there)

    def _opened(self) -> Tunnel | None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            way = self._way
            if self._stands(way):
                try:
                    return way.machine.tunnel(self._port)
                except LostConnection:
                    self._cut = way
                except HostError:
                    self.refused.set()
                    return None
            time.sleep(_TICK)
        return None


def _move(source: Tunnel | socket.socket, target: Tunnel | socket.socket) -> None:
    """Move bytes until the source ends; then both are closed: whoever reads of them is told so."""
    try:
        while data := source.recv(_PIECE):
            while data:
                data = data[target.send(data) :]
    except (OSError, EOFError):
        pass
    for end in (source, target):
        if isinstance(end, socket.socket):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # closing alone wakes nobody
        else:
            end.close()
