"""Memory: what our control group may use, and how often the kernel has killed in it."""

import os

from supervisor.files import read_bytes

GROUPS = "/sys/fs/cgroup"


def _folder():
    """Return our control group's folder and its version; in a container it is often mounted as the root."""
    lines = read_bytes("/proc/self/cgroup").decode("utf-8", "replace").splitlines()
    groups = [line.split(":", 2)[1:] for line in lines if line.count(":") >= 2]
    for kind, controller, sign in ((1, "memory", "memory.oom_control"), (2, "", "memory.events")):
        for controllers, path in groups:
            if controller in controllers.split(","):
                for below in (path, ""):
                    folder = "{}/{}{}".format(GROUPS, controller, below)
                    if os.path.exists(folder + "/" + sign):
                        return folder, kind
    return None, 0


def _counts(path):
    """Return the lines `name N` of a file."""
    words = (line.split() for line in read_bytes(path).splitlines())
    return {w[0]: int(w[1]) for w in words if len(w) == 2 and w[1].isdigit()}


def _number(path):
    text = read_bytes(path).strip()
    return int(text) if text.isdigit() else None


class Watch:
    """Counts the kills for memory in our control group since the last looks; 0 where the kernel doesn't say.

    The counter is everybody's in the container: what rose long before our end has nothing to do with it.
    """

    def __init__(self):
        self.folder, self.kind = _folder()
        self.before = self.earlier = self._kills(), self._hits()

    def look(self):
        """Forget what came before the last look: called at each heartbeat."""
        self.earlier, self.before = self.before, (self._kills(), self._hits())

    def kills(self):
        """How many since the last look: of the command, if it was one of them."""
        return self._kills() - self.before[0]

    def kills_around(self):
        """How many since the look before: of a process that the command may have died of in turn."""
        return self._kills() - self.earlier[0]

    def limit_reached(self):
        """Whether the group has run into its own limit, so that the kill was for it and not for the host."""
        return self.limit() is not None and self._hits() > self.before[1]

    def limit(self):
        """Bytes that the group may use; None where it may use all."""
        name = "memory.limit_in_bytes" if self.kind == 1 else "memory.max"
        limit, total = self._read(name), meminfo().get("MemTotal")
        return limit if limit is not None and (total is None or limit < total) else None

    def used(self):
        return self._read("memory.usage_in_bytes" if self.kind == 1 else "memory.current")

    def _read(self, name):
        return _number("{}/{}".format(self.folder, name)) if self.folder else None

    def _kills(self):
        name = "memory.oom_control" if self.kind == 1 else "memory.events"  # v1: since Linux 4.13
        return _counts("{}/{}".format(self.folder, name)).get(b"oom_kill", 0) if self.folder else 0

    def _hits(self):
        if self.kind == 1:
            return sum(self._read(n) or 0 for n in ("memory.failcnt", "memory.memsw.failcnt"))
        return _counts("{}/memory.events".format(self.folder)).get(b"oom", 0) if self.folder else 0


def meminfo():
    """Return the lines of /proc/meminfo in bytes."""
    found = {}
    for line in read_bytes("/proc/meminfo").decode("ascii", "replace").splitlines():
        words = line.replace(":", " ").split()
        if len(words) == 3 and words[1].isdigit():
            found[words[0]] = int(words[1]) * 1024
    return found
