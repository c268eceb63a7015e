"""A run on this host: its command under supervision, again where that is asked for, and its end recorded."""

import os
import signal
import time

from supervisor import last_look
from supervisor.attempt import FOREVER, Attempt
from supervisor.clock import uptime
from supervisor.packages import note_packages
from supervisor.processes import kill, start_time
from supervisor.revival import Revival, boot_id, since
from supervisor.revival import cause as lost

LOOK = 12.0  # seconds for end.json; nvidia-smi has 10 of them
SHORT_LOOK = 2.0  # the same when somebody waits for the end, maybe with a SIGKILL in hand
ASKED = 5.0  # seconds that a supervisor which was asked to end waits for the other workers to have ended
GIVEN_UP = 600.0  # seconds that everybody waits for a supervisor to come back (Cluster.rejoin)
TIMED_OUT = 124  # the exit status of a command whose time was over, as `timeout` has it


def late(before):
    """Whether it came back when everybody had given it up: run/waits.sh.j2 has the same rule."""
    away = time.time() - before.get("heartbeat", 0)
    if before.get("boot_seen") not in (None, boot_id()):
        away = away if 0 <= away <= uptime() else uptime()
    elif before.get("uptime"):
        away = uptime() - before["uptime"]
    return away >= GIVEN_UP


class Supervisor(Attempt):
    """All attempts at a command, and the last word about them."""

    def __init__(self, person, run, words, folder):
        super().__init__(person, run, words, folder)
        self.revival = Revival(run, folder)
        self.since = since(self.before) if self.before else uptime()

    def supervise(self):
        """Run the command to its end, and return the status that a shell would see."""
        self.watch_signals()
        if not self.before:
            note_packages(os.path.join(os.path.dirname(self.folder), "spec.json"))
        elif not self.revived():
            return 1
        self.state.write(
            **dict(
                self.identity(),
                state="starting",
                pid=os.getpid(),
                pid_start=start_time(os.getpid()),
                heartbeat=time.time(),
                uptime=uptime(),
                **self.peers.facts(),
            )
        )
        self.sizes.note()
        if self.restarts.most:
            self.revival.write()
        end = self.settled(self.attempt())
        while self.again(end):
            end = self.settled(self.attempt())
        end = self.last if self.peers.given_up else end
        self.peers.leave(FOREVER if self.asked_at is None else ASKED)
        if self.parting():  # no last word: the container's entrypoint starts this again
            return 128 + signal.SIGTERM
        return self.last_word(self.peers.judged(end, self.pushed))  # a stop may have come meanwhile

    def identity(self):
        """Return what state.json says of this run for good."""
        known = {
            "run": self.run,
            "person": self.person,
            "host": self.launch.get("host"),
            "started": time.time(),
        }
        known.update(boot_id=self.launch.get("boot_id"), container=self.launch.get("container"))
        if self.restarts.most:
            known.update(boot_seen=boot_id(), since=self.since, restarts=self.restarts.past)
        if self.before:  # the launch's boot may be over, and in here nobody knows how its host calls this one
            now = boot_id() if boot_id() != self.before.get("boot_seen") else None
            known.update(started=self.before.get("started"), boot_id=now)
        return known

    def revived(self):
        """Whether a run whose supervisor died goes on with this one."""
        over = self.before.get("ended") or self.asked_by() or late(self.before)
        went_on = os.path.exists(os.path.join(os.path.dirname(self.folder), "continued_by"))
        if over or went_on or self.restarts.after("lost") is None:
            self.revival.forget()
            return False
        kill(self.marks)
        print(self.restarts.note(self.launch.get("host"), lost(self.before)), flush=True)
        return True

    def again(self, end):
        """Whether the command is to be started again, when it is time for that."""
        found = self.peers.again(end) if self.asked is None else None
        if found is None:
            return False
        host, why = found
        # What is recorded without a next attempt; a command that had ended well has no cause of its own.
        self.last = end if end.state == "failed" else end._replace(state="failed", why=why)
        print(self.restarts.note(host or self.launch.get("host"), why), flush=True)
        self.kill_at = self.push_at = None
        self.pushed = self.timed_out = False
        self.note(state="starting", restarts=self.restarts.past, finished=None, child=None)
        while self.asked is None and not self.peers.called():
            if self.peers.given_up:
                return False
            self.rest(self.peers.next_at or FOREVER)
        return True

    def settled(self, end):
        """Return the end as it is to be recorded, when the other workers have said what they say to it."""
        self.peers.report(end)
        if end.state == "succeeded" and not self.peers.decided(end):
            self.note(finished={"exit_code": 0, "at": time.time()})
        while not self.peers.decided(end) and not self.waited_enough():
            self.rest(self.waits_until())
        end = self.peers.judged(end, self.pushed)
        over = self.peers.verdict or self.restarts.after(end.kind) is not None
        if over or self.timed_out or end.state == "stopped":
            self.sweep()
        while not self.peers.dismissed() and not self.waited_enough():
            self.rest(self.waits_until())
        return end

    def waits_until(self):
        return FOREVER if self.asked_at is None else self.asked_at + ASKED

    def waited_enough(self):
        return time.monotonic() >= self.waits_until()

    def last_word(self, end):
        gpus = [uuid for uuid in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
        took = uptime() - self.since
        hurry = self.asked is not None or self.timed_out
        last_look.record(self.folder, self.memory, gpus, SHORT_LOOK if hurry else LOOK)
        how = {"state": end.state, "exit_code": end.code, "signal": end.number, "cause": end.why}
        try:
            self.state.write(leave=0, ended=time.time(), seconds=took, **how)
        finally:  # the run's folder may have been deleted
            self.revival.forget()
        if self.timed_out:
            return TIMED_OUT
        return end.code if end.code is not None else 128 + (end.number or 0)
