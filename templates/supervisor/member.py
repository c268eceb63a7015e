"""The link of a worker that is not the chief: to the chief's supervisor, again and again when it breaks."""

import socket
import time

from supervisor.link import IDLE, Link
from supervisor.proof import nonce, proof, proven
from supervisor.wire import NONSENSE, Broken, Wire

CONNECT = 5.0  # seconds for one try to reach the chief
RETRY = 0.5  # seconds between two tries
PATIENCE = 2.5  # times the seconds between two words, after which a connection is given up
BEHIND = 5.0  # seconds more than the chief waits for the others: it knows better who is missing


class Member(Link):
    """Answers every word of the chief with how this worker stands."""

    def __init__(self, cluster, wake, restarts, _attempt):
        super().__init__(cluster, wake, restarts)
        self.wire = None
        self.said = None  # the standing that the chief knows
        self.heard = self.since = time.monotonic()  # a word of the chief; the connection
        self.proof = ()  # what the chief has to prove; empty when it has
        self.parting = self.parted = False

    def keep(self):
        while not (self.leaving and (self.parted or self._in_vain())):
            try:
                if self.wire or self._connect():
                    self._turn()
                else:
                    self.wait([], [], RETRY)
            except Broken:
                self._close()
                if not self.parted:  # what accepts and closes at once is not asked without a pause
                    self.wait([], [], RETRY)
            self._judge()
        self._close()

    def _connect(self):
        """Reach the chief; whether that went well."""
        try:
            connection = socket.create_connection((self.cluster.addresses[0], self.cluster.link), CONNECT)
        except OSError:
            return False
        self.wire, self.said, self.proof, self.since = Wire(connection), None, None, time.monotonic()
        return True

    def _turn(self):
        ready = self.wait([self.wire], [self.wire] if self.wire.unsent else [], IDLE)
        self.wire.flush()
        for message in self.wire.receive() if self.wire in ready else ():
            try:
                self._take(message)
            except NONSENSE as error:
                raise Broken(repr(error))
        if self._silence() >= PATIENCE * self.cluster.ping:
            raise Broken("a new connection gets through sooner than one that was cut")
        if self.proof == () and not self.parting:
            self._say(self.standing)

    def _silence(self):
        return time.monotonic() - max(self.heard, self.since)

    def _say(self, standing):
        if standing != self.said:
            self.said = standing
            self.wire.send(standing)
        if standing.get("left") and not self.wire.unsent:
            self.parting = True
            self.wire.end()

    def _take(self, message):
        if self.proof is None:
            self._introduce(message.get("nonce"))
        elif self.proof:
            if not proven(message.get("proof"), *self.proof):
                raise Broken("not our chief")
            self.proof = ()
        else:
            self.heard, self.said = time.monotonic(), None  # each word is answered
            self.hear(message)

    def _introduce(self, theirs):
        rank, own, token = self.cluster.rank, nonce(), self.cluster.token
        self.wire.send({"rank": rank, "nonce": own, "proof": proof(token, "member", rank, theirs, own)})
        self.proof = (token, "chief", rank, theirs, own)

    def _judge(self):
        """Come to an end alone when the chief says nothing any more, or never came."""
        silent, what = time.monotonic() - self.heard, self.word.get("is")
        if what == "verdict":
            again = self.word["again"]
            if again is not None and silent >= self.cluster.rejoin + again + BEHIND:
                self.hear(self.last(0, "absent", {}))
        elif what == "go":
            if silent >= self.cluster.lost:
                self.hear(self.last(0, "lost", {}, self.restarts.after("lost")))
        elif silent >= BEHIND + (self.cluster.rejoin if self.restarts.past else self.cluster.join):
            self.hear(self.last(0, "absent", {}))

    def _in_vain(self):
        """Whether the chief can't hear a goodbye any more."""
        over = self.word.get("is", "verdict") == "verdict"  # or never begun
        return over and self.wire is None or time.monotonic() - self.heard >= self.cluster.lost

    def _close(self):
        if self.wire:
            self.wire.close()
            self.parted = self.parting  # it has read all, and closed its end
        self.wire = None
