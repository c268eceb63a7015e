"""The other workers of a run, as its supervisor asks for them."""

from supervisor.alone import Alone
from supervisor.chief import Chief
from supervisor.cluster import Cluster
from supervisor.member import Member
from supervisor.ports import take


class Peers(Alone):
    """The workers of a run on several hosts."""

    def __init__(self, facts, wake, restarts, attempt):
        super().__init__(restarts, attempt)
        self.cluster = Cluster(facts)
        self.link = (Member if self.cluster.rank else Chief)(self.cluster, wake, restarts, attempt)
        self.hold = None  # of this worker's port, for one attempt
        self.workers = []

    def start(self):
        if not self.link.is_alive():
            self.link.start()

    def facts(self):
        facts = {"rank": self.cluster.rank, "nodes": len(self.cluster.hosts), "attempt": self.attempt}
        running = self._word().get("is") == "go" and "end" not in self.link.standing
        return dict(facts, workers=self.workers, waiting=[] if running else self._others())

    def go(self):
        """The same; asks for this worker's port first. Raises OSError when none is free."""
        word = self._word()
        if word.get("is") == "waiting" and self.hold is None:
            self.attempt = word["attempt"]
            never = (self.cluster.link,) if self.cluster.rank == 0 else ()
            self.hold = take(self.cluster.port, self.cluster.ports, never)
            self.link.begin(attempt=self.attempt, port=self.hold.port)
        return word.get("is") == "go" and self._mine(word)

    def _mine(self, word):
        """Whether a word is of the attempt that this worker takes part in."""
        return self.hold is not None and word["attempt"] == self.attempt

    def _word(self):
        word = self.link.word
        if self.verdict is None and word.get("is") == "verdict":
            if self._mine(word) or word["again"] is None:
                self.verdict = word
        elif self.verdict is None and self.hold and word.get("attempt", 0) > self.attempt:
            self.verdict = self.link.last(0, "lost", {}, 0.0)  # the chief was started again
        if word.get("is") == "go" and self._mine(word):
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
        end = {"state": end.state, "cause": end.why, "class": end.kind}
        self.link.stand(attempt=self.attempt, end=end)

    def over(self):
        others = self._others()
        if self.verdict is not None:
            return self.verdict["again"] is None
        return self.link.standing.get("end", {}).get("state") == "succeeded" and not others

    def decided(self, end):
        self._word()
        if end.state == "stopped" or self.verdict is not None:
            return True
        stays = self.cluster.rank == 0 or self.restarts.most
        return end.state == "succeeded" and not (stays and self._others())

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
        if end.why.get("kind") == "peer":  # of the attempt before: the next one never began
            return end
        why = self._blamed(verdict)
        if not pushed and end.why:
            why["own"] = end.why
        return end._replace(why=why)

    def _blamed(self, verdict):
        # The others heard no more of us: for us it is the chief that was lost.
        rank = 0 if verdict["rank"] == self.cluster.rank else verdict["rank"]
        why = {"kind": "peer", "host": self.cluster.hosts[rank]}
        why.update(how=verdict["how"], cause=verdict["cause"])
        return dict(why, seconds=self.cluster.lost) if verdict["how"] == "lost" else why

    def again(self, end):
        verdict = self.verdict
        if verdict is None or verdict.get("again") is None or end.state == "stopped":
            return None
        self.verdict, self.workers = None, []
        self.hold.close()
        self.hold = None
        own = verdict["rank"] == self.cluster.rank and verdict["how"] == "failed"
        return verdict["host"], verdict["cause"] if own else self._blamed(verdict)

    def called(self):
        word = self._word()
        self.given_up = self.verdict is not None
        return word.get("is") == "waiting" and word["attempt"] > self.attempt

    def dismissed(self):
        self.link.stand(idle=True)
        if self.verdict is not None and self.verdict.get("again") is not None:
            return True
        return self.cluster.rank > 0 or not self._others()

    def leave(self, patience):
        self.link.leave(min(patience, self.cluster.lost))
