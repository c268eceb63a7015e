"""What a supervisor asks of the other workers of its run, answered for a run of one host, which has none."""

import time
from collections import namedtuple

# How a command ended: a state of a run, its status or the signal that it died of, the cause and its class.
End = namedtuple("End", "state code number why kind")


class Alone:
    """A run of one host: nobody to wait for, nobody to tell."""

    verdict = None
    given_up = False  # the others never came back for a restart

    def __init__(self, restarts, attempt):
        self.restarts, self.attempt = restarts, attempt
        self.next_at = 0.0
        self.settled = False  # an end came that no restart follows

    def start(self):
        pass

    def facts(self):
        """Return what state.json says of the workers."""
        return {"attempt": self.attempt} if self.restarts.most else {}

    def go(self):
        """Whether the command may start."""
        return True

    def environment(self):
        return {"ORCH_ATTEMPT": str(self.attempt)} if self.restarts.most else {}

    def stop(self, cause):
        """Tell the others that this worker was asked to end."""

    def report(self, end):
        """Tell the others how the command ended."""
        self.settled = self.restarts.after(end.kind) is None

    def over(self):
        """Whether the run has come to its end: nothing of it goes on, here or elsewhere."""
        return self.settled

    def decided(self, _end):
        """Whether it is known what the end means for all."""
        return True

    def judged(self, end, _pushed):
        """Return the end as it is to be recorded; `pushed`: it was ended because of the verdict."""
        return end

    def again(self, end):
        """Return the host and the cause that a restart follows; None where there is none."""
        delay = self.restarts.after(end.kind) if end.state == "failed" else None
        if delay is None:
            return None
        self.next_at = time.monotonic() + delay
        return None, end.why

    def called(self):
        """Whether it is time for the next attempt."""
        if time.monotonic() < self.next_at:
            return False
        self.attempt += 1
        return True

    def dismissed(self):
        """Whether nobody needs this supervisor any more."""
        return True

    def leave(self, patience):
        """Say goodbye, and wait at most so many seconds until that has been heard."""
