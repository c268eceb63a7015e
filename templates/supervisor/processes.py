"""Processes of this machine or container, as /proc shows them."""

import os
import signal

from supervisor.files import read_bytes


def start_time(pid):
    """Clock ticks from boot to the start (field 22 of /proc/PID/stat): with the pid, an identity."""
    try:
        return int(read_bytes("/proc/{}/stat".format(pid)).rpartition(b")")[2].split()[19])
    except (ValueError, IndexError):
        return None


def marks(run, rank=None):
    """Return the variables that all processes of a run's worker have, and no others."""
    return ["ORCH_RUN_ID=" + run] + ([] if rank is None else ["ORCH_NODE_RANK={}".format(rank)])


def members(marks):
    """Return the pids of all processes but ours that have these variables in their environment."""
    wanted = {mark.encode() for mark in marks}
    return [
        pid
        for pid in _all()
        if pid != os.getpid() and wanted <= set(read_bytes("/proc/{}/environ".format(pid)).split(b"\0"))
    ]


def tell(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def kill(marks):
    """End what is left of a run, also what is being forked meanwhile."""
    for _ in range(100):
        left = members(marks)
        if not left:
            return
        tell(left, signal.SIGKILL)


def other_supervisors():
    """Whether another run shares this /proc, and so the counter of OOM kills."""
    for pid in _all():
        if pid != os.getpid():
            words = read_bytes("/proc/{}/cmdline".format(pid)).split(b"\0")
            # `flock` and `sh` stand before supervise.py on its parents' command lines
            if words[0].rpartition(b"/")[2].startswith(b"python") and any(
                w.endswith(b"supervise.py") for w in words[1:3]
            ):
                return True
    return False


def _all():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
