"""Messages between supervisors: JSON objects, one a line, over TCP that never blocks."""

import json
import socket

LONGEST = 65536  # bytes of a line; a longer one is no message of ours
UNSENT = 4 * LONGEST  # bytes that wait for a reader that doesn't read
# What a message raises that is JSON, but none of ours.
NONSENSE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Broken(Exception):
    """The connection has ended, or what comes over it makes no sense."""


class Wire:
    """A connection as a stream of messages."""

    def __init__(self, connection, longest=LONGEST):
        connection.setblocking(False)
        self.connection, self.longest = connection, longest
        self.came, self.unsent = b"", b""

    def fileno(self):
        return self.connection.fileno()

    def send(self, message):
        """Send a message, or as much of it as goes now. Raises Broken."""
        self.unsent += json.dumps(message).encode("ascii") + b"\n"
        self.flush()

    def flush(self):
        """Send what is left to send. Raises Broken."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.connection.send(self.unsent) :]
        except BlockingIOError:
            if len(self.unsent) > UNSENT:
                raise Broken("nobody reads")
        except OSError as error:
            raise Broken(str(error))

    def receive(self):
        """Return the messages that have come whole. Raises Broken."""
        try:
            data = self.connection.recv(LONGEST)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Broken(str(error))
        if not data:
            raise Broken("closed")
        lines = (self.came + data).split(b"\n")
        self.came = lines.pop()
        if max(map(len, [self.came] + lines)) > self.longest:
            raise Broken("a line is too long")
        return [_message(line) for line in lines]

    def end(self):
        """Say that nothing more will be sent."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Broken(str(error))

    def close(self):
        self.connection.close()


def _message(line):
    try:
        message = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        raise Broken("no JSON")
    if not isinstance(message, dict):
        raise Broken("no object")
    return message
