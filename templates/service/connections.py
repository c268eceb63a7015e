"""Who has a connection to a port of 127.0.0.1, as the kernel tells it."""

import http.client
import socket
import time

REMEMBERED = 120.0  # seconds: the kernel shows a closed connection for one minute
_HERE = ("0100007F", "7F000001")  # 127.0.0.1, on machines of either order of bytes


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Connections:
    """Those of others, also short ones: a closed one is seen for a minute. Our own don't count."""

    def __init__(self, port, table="/proc/net/tcp"):
        self.port, self.table = port, table
        self.own = {}  # port of our end: when

    def others(self):
        """Whether somebody has, or had just now, a connection to the port."""
        now = time.monotonic()
        self.own = {port: when for port, when in self.own.items() if now - when < REMEMBERED}
        return any(port not in self.own for port in self._ends())

    def _ends(self):
        """Return the ports of the other ends."""
        try:
            with open(self.table) as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            return [-1]  # nobody can tell: it counts as used
        found = []
        for row in rows:
            (here, port), (there, other) = (address.split(":") for address in row[1:3])
            if here in _HERE and there in _HERE:  # one that listens has nobody on the other side
                ends = {int(port, 16), int(other, 16)}
                if self.port in ends:
                    found.extend(ends - {self.port})
        return found

    def answers(self):
        """Whether it takes connections."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as sock:
                self._note(sock)
                return True
        except OSError:
            return False

    def ask(self, path, headers):
        """Return the answer to a GET. Raises OSError and HTTPException."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.connect()
            self._note(connection.sock)
            connection.request("GET", path, headers=headers)
            return connection.getresponse().read().decode("utf-8", "replace")
        finally:
            connection.close()

    def _note(self, sock):
        self.own[sock.getsockname()[1]] = time.monotonic()
