"""One attempt at a training command: started when all workers are there, watched, asked to end."""

import os
import signal
import sys
import time

from supervisor.alone import Alone, End
from supervisor.causes import cause, kind_of, last_words, not_started
from supervisor.clock import Bell, uptime
from supervisor.command import Command
from supervisor.files import read_json, remove
from supervisor.memory import Watch
from supervisor.peers import Peers
from supervisor.processes import kill, marks, members, start_time
from supervisor.restarts import Restarts
from supervisor.sizes import Sizes
from supervisor.state import State

HEARTBEAT = 10.0  # seconds between two heartbeats in state.json
GRACE = 30.0  # seconds from SIGTERM to SIGKILL, where launch.json names none
ENDING = "/run/orch/ending"  # made by the container's entrypoint when the container is told to stop
FOREVER = float("inf")


class Attempt:
    """A command and its end. Nothing here may raise between its end and the last word about it."""

    def __init__(self, person, run, words, folder):
        self.person, self.run, self.folder = person, run, folder
        launch = os.path.join(folder, "launch.json")
        self.launch = read_json(launch)
        self.before = read_json(os.path.join(folder, "state.json"))  # of a supervisor that is no more
        self.restarts = Restarts(self.launch.get("restarts"), self.before.get("restarts") or ())
        if not self.restarts.most:
            remove(launch)
        self.state = State(folder)
        self.sizes = Sizes(folder)
        self.memory = Watch()
        self.bell = Bell()
        self.command = Command(words)
        cluster = self.launch.get("cluster")
        attempt = self.before.get("attempt", 0) + bool(self.before)
        alone = not cluster
        self.peers = (
            Alone(self.restarts, attempt) if alone else Peers(cluster, self.bell.ring, self.restarts, attempt)
        )
        self.marks = marks(run, cluster["rank"] if cluster else None)
        self.begun = self.started_at = time.monotonic()
        self.last = None  # the end of the attempt before
        self.log_from = 0  # bytes of the log of earlier attempts
        self.beat_at = self.begun + HEARTBEAT
        self.asked = None  # the signal that asked for the end
        self.asked_at = None
        self.timed_out = False
        self.pushed = False  # it is ended because of another worker
        self.push_at = None
        self.kill_at = None

    def watch_signals(self):
        """Wake the loop for every signal; SIGHUP is for terminals, and a run has none."""
        signal.set_wakeup_fd(self.bell.writable)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self.end)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: self.command.tell(number))

    def end(self, number, _frame=None):
        self.asked = number
        self.asked_at = self.asked_at or time.monotonic()
        self.begin_end(self.asked_by().get("grace"))

    def asked_by(self):
        return read_json(os.path.join(self.folder, "stop.json"))

    def begin_end(self, grace=None):
        grace = self.launch.get("grace", GRACE) if grace is None else grace
        self.kill_at = min(self.kill_at or FOREVER, time.monotonic() + grace)
        self.command.ask()

    def attempt(self):
        """Run the command once, when all workers are there; return its End."""
        try:
            self.peers.start()
            while self.asked is None and self.peers.verdict is None and not self.peers.go():
                self.rest()
            if self.asked is not None:  # asked to stop before there was anything to stop
                return self.ended(None, signal.SIGTERM)
            if self.peers.verdict is not None:
                return self.last or End("failed", None, None, {}, None)
        except (OSError, RuntimeError) as error:  # no port; no thread
            return self.not_started(None, {"kind": "not started", "message": str(error)})
        try:
            child = self.start()
        except OSError as error:
            return self.not_started(*not_started(self.command.words, error))
        self.note(state="running", child=child.pid, child_start=start_time(child.pid))
        if self.asked is not None:
            self.command.ask()
        status = self.wait()
        return self.ended(status if status >= 0 else None, -status if status < 0 else None)

    def start(self):
        self.started_at, self.log_from = time.monotonic(), self.log_size()
        env = dict(os.environ)
        env["ORCH_PROGRESS"] = os.path.join(self.folder, "progress.jsonl")
        env.update(self.launch.get("env", {}))
        env.update(self.peers.environment())
        self.command.start(env, self.marks)
        return self.command.child

    def not_started(self, code, why):
        print("orch: " + why["message"], file=sys.stderr, flush=True)
        return End("failed", code, None, why, None)

    def log_size(self):
        try:
            return os.fstat(1).st_size if self.peers.attempt else 0
        except OSError:
            return 0

    def wait(self):
        """Beat until the command ends; return its status as Popen has it."""
        limit = self.started_at + (self.launch.get("timeout") or FOREVER)
        while True:
            status = self.command.child.poll()
            if status is not None:
                return status
            now = time.monotonic()
            if self.kill_at is not None and now >= self.kill_at:
                self.command.tell(signal.SIGKILL)
                self.kill_at = now + 1.0
            if self.kill_at is None and now >= limit:
                self.timed_out = True
                self.begin_end()
            self.push(now)
            self.rest(self.kill_at or min(limit, self.push_at or FOREVER))

    def push(self, now):
        """End the command because of another worker; one that failed leaves it a moment to end by itself."""
        verdict = self.peers.verdict
        if verdict is None or self.kill_at is not None:
            return
        stopped = verdict["how"] == "stopped"
        self.push_at = self.push_at or now + (0 if stopped else self.peers.cluster.aside)
        if now >= self.push_at:
            self.pushed = True
            self.begin_end(verdict["cause"].get("grace") if stopped else None)

    def rest(self, until=FOREVER):
        """Until then, or until something happens; with what is due meanwhile."""
        self.bell.sleep(min(self.beat_at, until))
        if self.parting():
            self.peers.report(self.parted(None, None))  # at once: commands of others may fail because of this
        elif self.asked is not None:
            self.peers.stop(self.stopped_by())
        if time.monotonic() >= self.beat_at:
            self.beat_at = time.monotonic() + HEARTBEAT
            self.memory.look()
            self.sizes.note()
            self.note(leave=2, heartbeat=time.time(), uptime=uptime())
        elif any(self.state.fields.get(name) != value for name, value in self.peers.facts().items()):
            self.note()

    def note(self, leave=1, **fields):
        """Write what is true now; the command may have deleted the folder, and the disk may be full."""
        try:
            self.state.write(leave=leave, **dict(self.peers.facts(), **fields))
        except OSError:
            pass  # the next may be written; the end has to be

    def ended(self, code, number):
        if self.parting():
            return self.parted(code, number)
        if self.asked is not None or self.asked_by():
            return End("stopped", code, number, self.stopped_by(), None)
        if self.timed_out:
            return End(
                "failed", code, number, {"kind": "timeout", "seconds": self.launch["timeout"]}, "timeout"
            )
        if code == 0:
            return End("failed" if self.pushed else "succeeded", 0, None, {"kind": "exit", "code": 0}, None)
        said = last_words(os.path.join(self.folder, "training.log"), self.log_from)
        why = cause(code, number, self.memory, said)
        return End("failed", code, number, why, kind_of(why, said))

    def parting(self):
        """Whether the container ends, and the run goes on when that comes back: its host may be rebooting."""
        ending = self.asked is not None and os.path.exists(ENDING) and not self.peers.over()
        return ending and not self.asked_by() and self.restarts.after("lost") is not None

    def parted(self, code, number):
        return End("failed", code, number, {"kind": "lost", "how": "its container was stopped"}, "lost")

    def stopped_by(self):
        ending = os.path.exists(ENDING)
        by = "the stop of its container" if ending else "signal {} to the supervisor".format(self.asked)
        return {"by": by, **self.asked_by(), "kind": "stopped"}

    def sweep(self):
        """End what is left of the run: what still saves has its grace; then whoever carries the run's id."""
        if self.kill_at is None and members(self.marks):
            self.begin_end()
        while self.kill_at is not None and time.monotonic() < self.kill_at and members(self.marks):
            self.bell.sleep(min(self.kill_at, time.monotonic() + 0.1))
        self.command.tell(signal.SIGKILL)
        kill(self.marks)
        self.command.child = None  # nothing of it is left, and its pid may be another's soon
