"""Why a command ended."""

import errno
import os
import signal

from supervisor.files import read_bytes
from supervisor.processes import other_supervisors
from supervisor.traceback_end import exception

TAIL = 65536  # bytes of the log's end in which a traceback is looked for


def cause(code, number, memory, log):
    """Return the cause of an end that nobody asked for, with what is known of it."""
    if memory.kills() and (
        number == signal.SIGKILL or code == 128 + signal.SIGKILL
    ):  # a shell's status for its child
        where = "container" if memory.limit_reached() else "host"
        return {"kind": "oom", "probable": other_supervisors(), "where": where, "limit": memory.limit()}
    found = {"kind": "exit", "code": code} if number is None else {"kind": "signal", "signal": number}
    if memory.kills_around():
        found["oom_kills"] = memory.kills_around()  # of another process of it, or of a neighbour
        found["probable"] = other_supervisors()
    # A Python that dies of an exception exits with 1, and may crash while it is at it.
    loose = code == 1 or number in (signal.SIGABRT, signal.SIGSEGV)
    said = exception(read_bytes(log, TAIL).decode("utf-8", "replace"), loose)
    if said:
        found["exception"] = said
    return found


def not_started(command, error):
    """Return the shell's status for a command that can't be run, and the cause."""
    code = 126 if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR) else 127
    message = "cannot run '{}': {}".format(command[0], error.strerror or os.strerror(error.errno or 0))
    return code, {"kind": "not started", "message": message}
