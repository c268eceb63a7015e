"""The other workers of a run, as a supervisor asks for them; a run of one host has none."""

from collections import namedtuple

from supervisor.chief import Chief
from supervisor.cluster import Cluster
from supervisor.member import Member
from supervisor.ports import take

# How a command ended: a state of a run, its status or the signal that it died of, and the cause.
End = namedtuple("End", "state code number why")


class Alone:
    """A run of one host: nobody to wait for, nobody to tell."""

    verdict = None
    attempt = 0

    def start(self):
        pass

    def facts(self):
        """Return what state.json says of the workers."""
        return {}

    def go(self):
        """Whether the command may start."""
        return True

    def environment(self):
        return {}

    def stop(self, cause):
        """Tell the others that this worker was asked to end."""

    def report(self, end):
        """Tell the others how the command ended."""

    def decided(self, _end):
        """Whether it is known what the end means for all."""
        return True

    def judged(self, end, _pushed):
        """Return the end as it is to be recorded; `pushed`: it was ended because of the verdict."""
        return end

    def dismissed(self):
        """Whether nobody needs this supervisor any more."""
        return True

    def leave(self, patience):
        """Say goodbye, and wait at most so many seconds until that has been heard."""


class Peers(Alone):
    """The workers of a run on several hosts."""

    def __init__(self, facts, wake):
        self.cluster = Cluster(facts)
        self.link = (Member if self.cluster.rank else Chief)(self.cluster, wake)
        self.hold = None  # of this worker's port
        self.workers = []

    def start(self):
        self.link.start()

    def facts(self):
        facts = {"rank": self.cluster.rank, "nodes": len(self.cluster.hosts), "attempt": self.attempt}
        running = self._word().get("is") == "go" and "end" not in self.link.standing
        return dict(facts, workers=self.workers, waiting=[] if running else self._others())

    def go(self):
        """The same; asks for this worker's port first. Raises OSError when none is free."""
        word = self._word()
        if word.get("is") == "waiting" and self.hold is None:
            never = (self.cluster.link,) if self.cluster.rank == 0 else ()
            self.hold = take(self.cluster.port, self.cluster.ports, never)
            self.link.stand(attempt=self.attempt, port=self.hold.port)
        return word.get("is") == "go"

    def _word(self):
        word = self.link.word
        if word.get("is") == "verdict" and self.verdict is None:
            self.verdict = word
        if word.get("is") == "go":
            self.workers = self.cluster.workers(word["ports"])
        return word

    def _others(self):
        """Return the hosts that are waited for: to come, or to end."""
        word = self._word()
        return [host for host in word.get("for", self.cluster.others()[:1]) if host != self.cluster.host]

    def environment(self):
        return self.cluster.environment(self.workers, self.attempt)

    def stop(self, cause):
        if "stop" not in self.link.standing:
            self.link.stand(stop=cause)

    def report(self, end):
        if end.state == "stopped":
            self.stop(end.why)
        self.link.stand(attempt=self.attempt, end={"state": end.state, "cause": end.why})

    def decided(self, end):
        self._word()
        if end.state == "stopped" or self.verdict is not None:
            return True
        return end.state == "succeeded" and (self.cluster.rank > 0 or not self._others())

    def judged(self, end, pushed):
        verdict = self.verdict
        if verdict is None or end.state in ("succeeded", "stopped"):
            return end
        own = verdict["rank"] == self.cluster.rank
        if verdict["how"] == "stopped" and not own:
            return end._replace(state="stopped", why=dict(verdict["cause"], on=verdict["host"]))
        if own and verdict["how"] in ("failed", "stopped"):
            return end._replace(why=end.why or verdict["cause"])
        if end.why.get("kind") == verdict["cause"].get("kind") == "timeout":
            return end
        host = (
            self.cluster.hosts[0] if own else verdict["host"]
        )  # own: the others heard nothing of us any more
        why = {"kind": "peer", "host": host, "how": verdict["how"], "cause": verdict["cause"]}
        if verdict["how"] == "lost":
            why["seconds"] = self.cluster.lost
        if not pushed and end.why:
            why["own"] = end.why
        return end._replace(why=why)

    def dismissed(self):
        self.link.stand(idle=True)
        return self.cluster.rank > 0 or not self._others()

    def leave(self, patience):
        self.link.leave(min(patience, self.cluster.lost))
