"""A service from its start to its end: when it answers, and when it was last used."""

import json
import os
import select
import signal
import subprocess
import time

from connections import Connections, free_port
from programs import WORKER

LOOK = 5.0  # seconds between two looks at who uses it
NOTED = 60.0  # seconds between two notes of it in service.json
ANSWERS = 0.2  # seconds between two tries whether it answers already
START = 180.0  # seconds that a start may take, however soon want of use would end it
GRACE = 10.0  # seconds from SIGTERM to SIGKILL


def words(seconds):
    """Return 90 s, 5 min, 12 h."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit and seconds % unit == 0:
            return "{:g} {}".format(seconds / unit, name)
    return "{:g} s".format(seconds)


def write(name, fields):
    """Replace a file of the worker's folder as a whole."""
    path = os.path.join(WORKER, name)
    with open(path + ".part", "w") as file:
        file.write(json.dumps(fields) + "\n")
    os.rename(path + ".part", path)


class Use:
    """When something was last used. `others`, `busy`: whether it has visitors, or works without any."""

    def __init__(self, idle, others, busy, clock=time.monotonic):
        self.idle, self.others, self.busy, self.clock = idle, others, busy, clock
        self.last = clock()

    def look(self):
        """Look who uses it; return whether it is now. `busy` is asked only when its time would be over."""
        used = self.others() or (self.over() and self.busy())
        if used:
            self.last = self.clock()
        return used

    def over(self, least=0):
        """Whether it was not used for too long, `least` seconds or more."""
        return bool(self.idle) and self.clock() - self.last >= max(self.idle, least)


class Watch:
    """Looks after one program."""

    def __init__(self, program, idle):
        self.program, self.idle = program, idle
        self.connections = Connections(free_port())
        self.use = Use(idle, self.connections.others, lambda: program.busy(self.connections.ask))
        self.pause = min(LOOK, max(0.2, idle / 4)) if idle else LOOK
        self.ready, self.noted = False, float("-inf")
        self.readable, writable = os.pipe()
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self):
        """Run it to its end, and return its status as a shell sees it."""
        port, program = self.connections.port, self.program
        self.child = subprocess.Popen(
            program.command(port), cwd=program.folder, env=program.environment(), stdin=subprocess.DEVNULL
        )
        while self.child.poll() is None:
            if not self.ready:
                self.ready = self.connections.answers()
                if self.ready:
                    self.use.last = time.monotonic()
                    self.note()
                elif self.use.over(START):
                    return self.end("it did not answer", max(self.use.idle, START))
            elif self.use.look():
                self.note()
            elif self.use.over():
                return self.end("nobody used it", self.use.idle)
            self.sleep(self.pause if self.ready else ANSWERS)
        status = self.child.returncode
        return status if status >= 0 else 128 - status

    def sleep(self, seconds):
        """For so long, or until the program ends."""
        if select.select([self.readable], [], [], seconds)[0]:
            os.read(self.readable, 4096)

    def note(self):
        """Say that it is used, if it answers and that was not said just now."""
        if self.ready and time.monotonic() - self.noted >= NOTED:
            self.noted = time.monotonic()
            try:
                write("service.json", {"port": self.connections.port, "used": time.time(), "idle": self.idle})
            except OSError:
                pass  # a full disk: the next note may find room

    def end(self, what, seconds):
        """End it, with the reason in the run's record: its supervisor reads it there."""
        why = "{} for {}".format(what, words(seconds))
        try:
            write("stop.json", {"by": "--idle", "why": why, "time": time.time()})
        except OSError:
            pass  # a full disk: it ends all the same, without a reason
        self.child.terminate()
        try:
            self.child.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        return 0
