"""The command of a run: started in a session of its own, and told things."""

import os
import signal
import subprocess

from supervisor.processes import members, tell


class Command:
    """What a run runs. `marks` are the variables that tell its processes from all others."""

    def __init__(self, words):
        self.words = words
        self.child = None
        self.marks = ()

    def start(self, env, marks):
        """Start it, or raise OSError."""

        def own_signals():  # what we ignore or handle must not be the command's default
            os.setsid()
            for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)

        self.marks = marks
        # close_fds=False hands on the lock; Python's own descriptors are not inheritable
        self.child = subprocess.Popen(
            self.words, env=env, stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=own_signals
        )

    def ask(self):
        """SIGTERM for all of the run, and SIGCONT for what was halted: it hears nothing else."""
        if self.child is None:
            return
        others = members(self.marks)  # those with a session of their own get no signal of the group
        for number in (signal.SIGTERM, signal.SIGCONT):
            self.tell(number)
            tell([pid for pid in others if not self._in_group(pid)], number)

    def tell(self, number):
        """Send a signal to its group."""
        if self.child is not None:
            try:
                os.killpg(self.child.pid, number)
            except OSError:
                pass

    def _in_group(self, pid):
        try:
            return os.getpgid(pid) == self.child.pid
        except OSError:
            return True
