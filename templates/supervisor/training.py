"""One training command under supervision: started, watched, asked to end, and its end recorded."""

import os
import select
import signal
import subprocess
import sys
import time

from supervisor import last_look
from supervisor.causes import cause, not_started
from supervisor.files import read_json, remove
from supervisor.memory import Watch
from supervisor.packages import note_packages
from supervisor.processes import kill, members, start_time, tell
from supervisor.sizes import Sizes
from supervisor.state import State

HEARTBEAT = 10.0  # seconds between two heartbeats in state.json
GRACE = 30.0  # seconds from SIGTERM to SIGKILL, where launch.json names none
ENDING = "/run/orch/ending"  # made by the container's entrypoint when the container is told to stop
LOOK = 12.0  # seconds for end.json; nvidia-smi has 10 of them
SHORT_LOOK = 2.0  # the same when somebody waits for the end, maybe with a SIGKILL in hand
TIMED_OUT = 124  # the exit status of a command whose time was over, as `timeout` has it
_BOOTTIME = 7  # CLOCK_BOOTTIME: like /proc/uptime; no setting of the clock moves it


def uptime():
    return time.clock_gettime(_BOOTTIME)


class Supervisor:
    """A command and its end. Nothing here may raise between its end and the last word about it."""

    def __init__(self, person, run, command, folder):
        self.person, self.run, self.command, self.folder = person, run, command, folder
        launch = os.path.join(folder, "launch.json")
        self.launch = read_json(launch)
        remove(launch)
        self.state = State(folder)
        self.sizes = Sizes(folder)
        self.memory = Watch()
        self.begun = time.monotonic()
        self.child = None
        self.asked = None  # the signal that asked for the end
        self.timed_out = False
        self.kill_at = None
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.writable, False)

    def watch_signals(self):
        """Wake the loop for every signal; SIGHUP is for terminals, and a run has none."""
        signal.set_wakeup_fd(self.writable)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self.end)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: self.tell_group(number))

    def end(self, number, _frame=None):
        self.asked = number
        grace = self.asked_by().get("grace")
        self.begin_end(self.grace() if grace is None else grace)

    def grace(self):
        return self.launch.get("grace", GRACE)

    def asked_by(self):
        return read_json(os.path.join(self.folder, "stop.json"))

    def begin_end(self, grace):
        self.kill_at = min(self.kill_at or float("inf"), time.monotonic() + grace)
        self.ask()

    def ask(self):
        """SIGTERM for all of the run, and SIGCONT for what was halted: it hears nothing else."""
        if self.child is None:
            return
        others = members(self.run)  # those with a session of their own get no signal of the group
        for number in (signal.SIGTERM, signal.SIGCONT):
            self.tell_group(number)
            tell([pid for pid in others if not self.in_group(pid)], number)

    def in_group(self, pid):
        try:
            return os.getpgid(pid) == self.child.pid
        except OSError:
            return True

    def tell_group(self, number):
        if self.child is not None:
            try:
                os.killpg(self.child.pid, number)
            except OSError:
                pass

    def start(self):
        """Start the command in a session of its own, or raise OSError."""
        env = dict(os.environ)
        env["ORCH_PROGRESS"] = os.path.join(self.folder, "progress.jsonl")
        env.update(self.launch.get("env", {}))

        def own_signals():  # what we ignore or handle must not be the command's default
            os.setsid()
            for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)

        # close_fds=False hands on the lock; Python's own descriptors are not inheritable
        return subprocess.Popen(
            self.command, env=env, stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=own_signals
        )

    def supervise(self):
        """Run the command to its end, and return the status that a shell would see."""
        self.watch_signals()
        note_packages(os.path.join(os.path.dirname(self.folder), "spec.json"))
        self.state.write(
            run=self.run,
            person=self.person,
            host=self.launch.get("host"),
            state="starting",
            pid=os.getpid(),
            pid_start=start_time(os.getpid()),
            boot_id=self.launch.get("boot_id"),
            container=self.launch.get("container"),
            started=time.time(),
            heartbeat=time.time(),
            uptime=uptime(),
        )
        self.sizes.note()
        if self.asked is not None:  # asked to stop before there was anything to stop
            return self.ended(None, signal.SIGTERM)
        try:
            self.child = self.start()
        except OSError as error:
            return self.not_started(error)
        try:
            self.state.write(state="running", child=self.child.pid, child_start=start_time(self.child.pid))
        except OSError:
            pass  # the command may have deleted the folder: it is watched all the same, and beats try again
        if self.asked is not None:
            self.ask()
        status = self.wait()
        return self.ended(status if status >= 0 else None, -status if status < 0 else None)

    def not_started(self, error):
        code, why = not_started(self.command, error)
        print("orch: " + why["message"], file=sys.stderr, flush=True)
        return self.last_word("failed", code, None, why)

    def wait(self):
        """Beat until the command ends; return its status as Popen has it."""
        beat = time.monotonic() + HEARTBEAT
        limit = self.launch.get("timeout") or float("inf")
        while True:
            status = self.child.poll()
            if status is not None:
                return status
            now = time.monotonic()
            if self.kill_at is not None and now >= self.kill_at:
                self.tell_group(signal.SIGKILL)
                self.kill_at = now + 1.0
            if self.kill_at is None and now >= self.begun + limit:
                self.timed_out = True
                self.begin_end(self.grace())
            if now >= beat:
                beat = now + HEARTBEAT
                self.beat()
            self.sleep(min(beat, self.kill_at or self.begun + limit))

    def sleep(self, until):
        """Until then, or until a signal comes."""
        ready, _, _ = select.select([self.readable], [], [], max(0.0, until - time.monotonic()))
        if ready:
            os.read(self.readable, 4096)

    def beat(self):
        self.memory.look()
        self.sizes.note()
        try:
            self.state.write(leave=2, heartbeat=time.time(), uptime=uptime())
        except OSError:
            pass  # a heartbeat may be missed; the end may not

    def ended(self, code, number):
        stop = self.asked_by()
        stopped = bool(stop) or self.asked is not None
        if stopped or self.timed_out:
            self.sweep()
        if self.timed_out:
            why = {"kind": "timeout", "seconds": self.launch["timeout"]}
            return self.last_word("failed", code, number, why)
        if stopped:
            ending = os.path.exists(ENDING)
            by = "the stop of its container" if ending else "signal {} to the supervisor".format(self.asked)
            return self.last_word("stopped", code, number, {"by": by, **stop, "kind": "stopped"})
        if code == 0:
            return self.last_word("succeeded", 0, None, {"kind": "exit", "code": 0})
        log = os.path.join(self.folder, "training.log")
        return self.last_word("failed", code, number, cause(code, number, self.memory, log))

    def last_word(self, state, code, number, why):
        gpus = [uuid for uuid in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
        took = time.monotonic() - self.begun
        hurry = self.asked is not None or self.timed_out
        last_look.record(self.folder, self.memory, gpus, SHORT_LOOK if hurry else LOOK)
        self.state.write(
            leave=0, state=state, ended=time.time(), seconds=took, exit_code=code, signal=number, cause=why
        )
        if self.timed_out:
            return TIMED_OUT
        return code if code is not None else 128 + number

    def sweep(self):
        """End what is left of the run: what still saves has its grace; then whoever carries the run's id."""
        while self.kill_at is not None and time.monotonic() < self.kill_at and members(self.run):
            self.sleep(min(self.kill_at, time.monotonic() + 0.1))
        self.tell_group(signal.SIGKILL)
        kill(self.run)
