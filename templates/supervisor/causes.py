"""Why a command ended."""

import builtins
import errno
import os
import re
import signal

from supervisor.files import read_bytes
from supervisor.processes import other_supervisors
from supervisor.traceback_end import exception

# The hardware, not the program: what a restart may mend.
_GPU = re.compile(
    r"NVRM: Xid|GPU is lost|fallen off the bus|uncorrectable ECC|CUDA_ERROR_(?:ECC_UNCORRECTABLE|"
    r"HARDWARE_STACK_ERROR|LAUNCH_FAILED|ILLEGAL_INSTRUCTION|UNKNOWN|SYSTEM_NOT_READY)"
)
_NCCL = re.compile(
    r"NCCL (?:operation )?\S* ?(?:error|failed)|nccl(?:System|Internal|UnhandledCuda|Remote)Error|"
    r"unhandled (?:cuda|system) error"
)
_NO_GPU = re.compile(r".*failed call to cuInit.*")  # TensorFlow says it wherever no GPU is given
TAIL = 65536  # bytes of the log's end in which a traceback is looked for


def cause(code, number, memory, said):
    """Return the cause of an end that nobody asked for, with what is known of it; `said` is the log's end."""
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
    told = exception(said, loose)
    if told:
        found["exception"] = told
    return found


def last_words(log, since):
    """Return the end of the log, without what stood in it at size `since`."""
    size = os.path.getsize(log) if os.path.exists(log) else 0
    return read_bytes(log, max(0, min(TAIL, size - since))).decode("utf-8", "replace")


def kind_of(why, said):
    """Return the class of a cause, as `--retry-on` names them; None for one that no restart mends."""
    kind = why.get("kind")
    if kind not in ("exit", "signal"):
        return kind if kind in ("oom", "timeout") else None
    told = why.get("exception")
    if _GPU.search(told if told and _ordinary(told) else _NO_GPU.sub("", said)):
        return "gpu"
    if _NCCL.search(said):
        return "nccl"
    return "exception" if told else kind


def _ordinary(exception):
    """Whether a program's own fault raises this; frameworks tell of hardware by others."""
    found = getattr(builtins, exception.partition(":")[0], None)
    return isinstance(found, type) and issubclass(found, Exception) and found is not RuntimeError


def not_started(command, error):
    """Return the shell's status for a command that can't be run, and the cause."""
    code = 126 if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR) else 127
    message = "cannot run '{}': {}".format(command[0], error.strerror or os.strerror(error.errno or 0))
    return code, {"kind": "not started", "message": message}
