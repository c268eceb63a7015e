"""Ports of this network namespace: who holds one among runs, and whether anybody listens there."""

import errno
import socket


def holding(port):
    """Return the socket that says that a run holds a port, while it is open; None where another one does."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind("\0orch-port-%d" % port)  # abstract: its scope is the network's
    except OSError:
        held.close()
        return None
    return held


def bound(family, port):
    """Return a socket on a port at every address; None where the family is not here. Raises OSError.

    SO_REUSEADDR, so that a connection that has ended does not hold the port; who listens still does.
    """
    try:
        found = socket.socket(family)
    except OSError:
        return None
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind(("", port))
    except OSError as error:
        found.close()
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return None
        raise
    return found


def is_free(port):
    """Whether no run holds a port, and nobody listens there."""
    held = holding(port)
    if not held:
        return False
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            found = bound(family, port)
            if found:
                found.close()
    except OSError:
        return False
    finally:
        held.close()
    return True
