"""The chief's port: who knocks has to prove within seconds that it is a worker of this run."""

import errno
import socket
import time

from supervisor.proof import nonce, proof, proven
from supervisor.wire import NONSENSE, Broken, Wire

SECONDS = 5.0  # for a stranger to prove that it is none
CROWD = 64  # strangers at once; more push out the oldest
WORD = 1024  # bytes that a stranger may say


def listen(address, port):
    """Return a listening socket: on the address, or on all where it is not of this container.

    On all for a name too: on its own host it may be a loopback address (Debian's 127.0.1.1). Raises OSError.
    """
    try:
        literal = socket.AI_NUMERICHOST
        return _listen(*socket.getaddrinfo(address, port, 0, socket.SOCK_STREAM, 0, literal)[0])
    except OSError as error:
        if not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
            raise
    try:
        return _listen(socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::", port))
    except OSError:
        return _listen(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("0.0.0.0", port))


def _listen(family, kind, protocol, _name, address):
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and address[0] == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(CROWD)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class Door:
    """A listening socket, and those who have not proven yet who they are."""

    def __init__(self, listener, token, nodes):
        self.listener, self.token, self.nodes = listener, token, nodes
        self.guests = {}  # Wire -> (nonce, until when)

    def sockets(self):
        return [self.listener] + list(self.guests)

    def look(self, ready):
        """Let in who is at the door; return (rank, Wire) of each that has proven itself."""
        if self.listener in ready:
            self._accept()
        found = [self._hear(guest) for guest in list(self.guests) if guest in ready]
        for guest, (_, until) in list(self.guests.items()):
            if time.monotonic() > until:
                self._away(guest)
        return [member for member in found if member]

    def _accept(self):
        try:
            guest = Wire(self.listener.accept()[0], WORD)
        except OSError:
            return
        if len(self.guests) >= CROWD:
            self._away(min(self.guests, key=lambda g: self.guests[g][1]))
        own = nonce()
        self.guests[guest] = own, time.monotonic() + SECONDS
        try:
            guest.send({"nonce": own})
        except Broken:
            self._away(guest)

    def _hear(self, guest):
        own, _ = self.guests[guest]
        try:
            said = guest.receive()
            if not said:
                return None
            rank, theirs = said[0].get("rank"), said[0].get("nonce")
            known = rank in range(1, self.nodes) and proven(
                said[0].get("proof"), self.token, "member", rank, own, theirs
            )
            if len(said) > 1 or not known:
                raise Broken("a stranger")
            guest.send({"proof": proof(self.token, "chief", rank, own, theirs)})
        except (Broken,) + NONSENSE:
            self._away(guest)
            return None
        del self.guests[guest]
        return rank, Wire(guest.connection)

    def _away(self, guest):
        guest.close()
        self.guests.pop(guest, None)

    def close(self):
        for guest in list(self.guests):
            self._away(guest)
        self.listener.close()
