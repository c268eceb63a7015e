"""A port for a worker: free now, and held against the supervisors of other runs."""

import errno
import socket


class Hold:
    """A port that other supervisors leave alone for as long as this is open.

    The name of an abstract socket is known in one network namespace, as ports are, and goes with its process.
    A server of TensorFlow shares its port with any other of the same account, without an error: a bind alone
    would not keep two runs apart.
    """

    def __init__(self, port):
        """Raises OSError when another supervisor holds the port."""
        self.port = port
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.bind("\0orch-port-{}".format(port))
        except OSError:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()


def take(first, allowed, never=()):
    """Return a Hold of a free port: `first`, else another of those allowed; [] allows any.

    Raises OSError when none is free.
    """
    for port in [first] + [p for p in allowed if p != first]:
        if port and port not in never:
            found = _hold(port)
            if found:
                return found
    for _ in range(0 if allowed else 100):
        port = _any()
        found = None if port in never else _hold(port)
        if found:
            return found
    raise OSError("no port is free of {}".format(_spell(allowed or [first])))


def _hold(port):
    try:
        hold = Hold(port)
    except OSError:
        return None
    if _free(port):
        return hold
    hold.close()
    return None


def _free(port):
    """Whether nobody listens on the port, on any address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # Connections of an earlier attempt may linger; who listens is in the way all the same.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
                probe.listen(1)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # a machine without IPv6
                return False
    return True


def _any():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _spell(ports):
    return str(ports[0]) if len(ports) == 1 else "{}-{}".format(min(ports), max(ports))
