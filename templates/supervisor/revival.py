"""A run that may be started again goes on after its container was: the container's entrypoint starts it."""

import os
import shlex
import time

from supervisor.clock import uptime
from supervisor.files import fill, read_bytes, remove

FOLDER = "/run/orch/revive"  # the entrypoint has put it there; elsewhere nobody starts anything again


def boot_id():
    """Return which boot this is, as seen from in here."""
    return read_bytes("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def cause(before):
    """Return why a run with this state.json has to be started again."""
    rebooted = before.get("boot_seen") not in (None, boot_id())
    return {"kind": "lost", "how": "host rebooted" if rebooted else "container restarted"}


def since(before):
    """Return the uptime at which a run with this state.json began; below 0 before a reboot."""
    if before.get("boot_seen") == boot_id() and "since" in before:
        return before["since"]
    return uptime() - max(0.0, time.time() - before.get("started", time.time()))


class Revival:
    """The script that starts this supervisor again; without it nobody does."""

    def __init__(self, run, worker):
        self.path = os.path.join(FOLDER, "{}-{}".format(run, os.path.basename(worker)))
        self.worker = worker

    def write(self):
        # As the launch has it: run/launch.sh.j2.
        words = [os.path.join(self.worker, "launch.sh"), os.path.dirname(self.worker), self.worker]
        words.append(os.environ.get("CUDA_VISIBLE_DEVICES", "-"))
        script = 'cd {} || {{ rm -f "$0"; exit 1; }}\nexec /bin/sh {}\n'.format(
            shlex.quote(os.getcwd()), " ".join(shlex.quote(word) for word in words)
        )
        try:
            fill(self.path, "w", script)
        except OSError:
            pass  # no such container

    def forget(self):
        remove(self.path)
        remove(os.path.join(self.worker, "launch.json"))
