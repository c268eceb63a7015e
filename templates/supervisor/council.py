"""What the chief's supervisor knows of all workers, and what follows from it: no sockets, no clock."""


class Seat:
    """One worker, as the chief has heard of it."""

    def __init__(self, now):
        self.heard = now  # when a word of it came
        self.here = False  # whether its link stands
        self.lost = False  # nobody waits for it any more
        self.standing = {}  # what it said last: attempt, port, end, stop, idle, left

    def at(self, attempt):
        return self.standing if self.standing.get("attempt") == attempt else {}


class Council:
    """All workers start or none does; the first end that is no success ends all.

    Its word is sent to every worker, again and again; `is` says what it is:
        waiting   `for` these hosts
        go        all are there, with these `ports`; `for` hosts whose command has not ended
        verdict   the end of all, from the worker `rank` on `host`: `how` (failed, lost, absent, stopped) and
                  its `cause`; the seconds until all begin `again`, or None; `for` hosts where it still runs
    """

    def __init__(self, cluster, now, restarts, attempt=0):
        self.cluster, self.restarts = cluster, restarts
        self.seats = [Seat(now) for _ in cluster.hosts]
        self.seats[0].here, self.seats[0].heard = True, float("inf")  # the chief itself
        self.begin(attempt, now, cluster.rejoin if attempt else cluster.join)

    def begin(self, attempt, now, patience):
        """Wait for all workers, at most `patience` seconds."""
        self.attempt, self.until = attempt, now + patience
        self.ports, self.verdict, self.quiet_since = None, None, None
        for seat in self.seats:
            seat.lost = False
        self.failing = []  # (rank, when it was heard), in order

    def stands(self, rank, standing, now):
        """Take what a worker says of itself."""
        seat = self.seats[rank]
        seat.heard, seat.standing = max(seat.heard, now), standing
        if self.ports is not None and self.verdict is None and "attempt" not in standing:
            self._lose(rank)  # its supervisor was started again
        if failed(self._end(rank)) and rank not in [r for r, _ in self.failing]:
            self.failing.append((rank, now))

    def comes(self, rank, now):
        self.seats[rank].here, self.seats[rank].heard = True, now

    def goes(self, rank):
        self.seats[rank].here = False

    def consider(self, now):
        """Return the word for all, as things are now."""
        if self.verdict is None:
            self._end_of_all(now) or (self._gather(now) if self.ports is None else self._watch(now))
        elif self.verdict["again"] is None or not self._end_of_all(now):
            self._forget(now)
            self._begin_again(now)
        return self.word()

    def word(self):
        word = {"attempt": self.attempt, "for": [self.cluster.hosts[r] for r in self._awaited()]}
        if self.verdict is not None:
            return dict(word, **{"is": "verdict"}, **self.verdict)
        if self.ports is None:
            return dict(word, **{"is": "waiting"})
        return dict(word, **{"is": "go", "ports": self.ports, "asks": len(self.failing)})

    def _awaited(self):
        ranks = range(len(self.seats))
        if self.verdict is not None:
            there = [r for r in ranks if self.seats[r].at(self.attempt) and not self.seats[r].lost]
            return [r for r in there if not self._says(r, "idle", "left")]
        if self.ports is None:
            return [r for r in ranks if not (self.seats[r].here and self._says(r, "port"))]
        return [r for r in ranks if not self._end(r)]

    def _says(self, rank, *words):
        standing = self.seats[rank].at(self.attempt)
        return any(standing.get(word) for word in words)

    def _end(self, rank):
        return self.seats[rank].at(self.attempt).get("end")

    def _done(self, rank):
        """Whether a worker has come to a good end, and may be silent."""
        return self._says(rank, "left") or bool(self._end(rank)) and not failed(self._end(rank))

    def _end_of_all(self, now):
        """Whether somebody was asked to stop, or one fails while not all have come."""
        for rank, seat in enumerate(self.seats):
            if seat.standing.get("stop"):
                return self._judge(rank, "stopped", seat.standing["stop"])
        if self.ports is None and self.failing:
            rank, _ = self.failing[0]
            return self._judge(rank, "failed", self._end(rank)["cause"])
        return False

    def _gather(self, now):
        awaited = self._awaited()
        if not awaited:
            self.ports = [seat.standing["port"] for seat in self.seats]
        elif now >= self.until:
            self._judge(next((r for r in awaited if r), 0), "absent", {})

    def _watch(self, now):
        running = [r for r in range(len(self.seats)) if not self._done(r)]
        silent = min(running, key=lambda r: self.seats[r].heard, default=0)
        if now - self.seats[silent].heard >= self.cluster.lost:
            self._lose(silent)
            return
        # A command that fails may do so because another worker is gone, of which nobody has heard yet.
        if self.failing:
            first, when = self.failing[0]
            if all(self.seats[r].heard > when for r in running if r != first):
                self._judge(first, "failed", self._end(first)["cause"], self._end(first).get("class"))

    def _lose(self, rank):
        self.seats[rank].lost = True
        self._judge(rank, "lost", {}, "lost")

    def _judge(self, rank, how, cause, kind=None):
        for seat in self.seats if self.ports is None else ():
            seat.lost = not seat.here
        self.verdict = {"rank": rank, "host": self.cluster.hosts[rank], "how": how, "cause": cause}
        self.verdict["again"] = self.restarts.after(kind)
        return True

    def _begin_again(self, now):
        """Call all for the next attempt when nothing runs any more and the wait is over."""
        again = self.verdict["again"]
        if again is None or self._awaited():
            return
        self.quiet_since = self.quiet_since or now
        if now >= self.quiet_since + again:
            self.begin(self.attempt + 1, now, self.cluster.rejoin)

    def _forget(self, now):
        for seat in self.seats:
            seat.lost = seat.lost or now - seat.heard >= self.cluster.lost


def failed(end):
    """Whether a report is of an end that ends all."""
    return bool(end) and end["state"] != "succeeded"
