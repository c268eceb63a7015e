"""A TCP relay in front of a server, as a bad line: it cuts connections at random, and freezes some."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset instead of an end


class Relay:
    """Relays 127.0.0.1:`port` to `target`. Once `armed`, every connection lives a second and a half at most.

    It ends in the middle of a packet, by an end or by a reset, at times before the login is through; one in
    eight stands still for a while before that. `cuts` counts them; a `disarmed` relay cuts nothing.
    """

    def __init__(self, target: int, seed: object) -> None:
        self._target, self._random = target, random.Random(f"{seed} {target}")
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.cuts = self.freezes = 0
        self._armed = threading.Event()
        self._lines: set[_Line] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self) -> None:
        """Begin to cut, those that are open as well."""
        self._armed.set()
        with self._lock:
            for line in self._lines:
                self._doom(line)

    def disarm(self) -> None:
        """Cut no more."""
        self._armed.clear()

    def close(self) -> None:
        """End everything."""
        self.disarm()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in list(self._lines):
            line.end(reset=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            line = _Line(client, server)
            with self._lock:
                self._lines.add(line)
                if self._armed.is_set():
                    self._doom(line)
            line.start()

    def _doom(self, line: _Line) -> None:
        chance = self._random
        wait, reset = chance.uniform(0.02, 1.5), chance.random() < 0.5
        freeze = chance.uniform(0.2, 2.0) if chance.random() < 0.125 else 0.0
        line.left = chance.randrange(1, 4_000_000)
        threading.Thread(target=self._end, args=(line, wait, freeze, reset), daemon=True).start()

    def _end(self, line: _Line, wait: float, freeze: float, reset: bool) -> None:
        line.spent.wait(wait)
        if freeze and self._armed.is_set():
            line.flows.clear()
            time.sleep(freeze)
            line.flows.set()
        with self._lock:
            self._lines.discard(line)
            if self._armed.is_set() and line.end(reset=reset):
                self.cuts += 1
                self.freezes += freeze > 0
            elif not self._armed.is_set():
                line.left = 1 << 60
                line.spent.clear()


class _Line:
    """One connection: two ways, each in a thread. It can stand still, and carries `left` bytes back."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self.left = 1 << 60
        self.flows, self.spent, self._over = threading.Event(), threading.Event(), threading.Event()
        self.flows.set()

    def start(self) -> None:
        for source, sink in ((self._client, self._server), (self._server, self._client)):
            threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.flows.wait()
                if sink is self._client:
                    data = data[: self.left]
                    self.left -= len(data)
                sink.sendall(data)
                if self.left <= 0:
                    self.spent.set()
                    self._over.wait(60)
        self.end(reset=False)

    def end(self, *, reset: bool) -> bool:
        """End both sides; return whether it was not over yet."""
        if self._over.is_set():
            return False
        self._over.set()
        for sock in (self._client, self._server):
            with contextlib.suppress(OSError):
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                else:
                    sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        return True
