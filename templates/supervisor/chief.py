"""The link of the chief's supervisor: the others come to it, and it tells all what is true of all."""

import time

from supervisor.council import Council
from supervisor.door import Door, listen
from supervisor.link import IDLE, Link
from supervisor.wire import Broken

RETRY = 0.5  # seconds between two tries to listen


class Chief(Link):
    """Holds the council."""

    def __init__(self, cluster, wake, restarts, attempt):
        super().__init__(cluster, wake, restarts)
        self.council = Council(cluster, time.monotonic(), restarts, attempt)
        self.members = {}  # rank -> Wire
        self.door = None
        self.sent_at = 0.0

    def keep(self):
        if not self._open():
            return
        try:
            self._tell(time.monotonic())
            while not self.leaving:
                self._turn()
            self._turn()  # the last word
        finally:
            self.door.close()
            for rank in list(self.members):
                self._away(rank)

    def _open(self):
        """Listen for the others; a port that is taken may become free while they are waited for."""
        until = time.monotonic() + self.cluster.join
        while not self.leaving:
            try:
                listener = listen(self.cluster.addresses[0], self.cluster.link)
            except OSError as error:
                if time.monotonic() < until:
                    self.hear(self.council.consider(time.monotonic()))
                    self.wait([], [], RETRY)
                    continue
                message = "cannot listen on port {} for the other workers: {}"
                said = message.format(self.cluster.link, error.strerror)
                self.hear(self.last(0, "failed", {"kind": "not started", "message": said}))
                return False
            self.door = Door(listener, self.cluster.token, len(self.cluster.hosts))
            return True
        return False

    def _turn(self):
        members = dict(self.members)
        unsent = [wire for wire in members.values() if wire.unsent]
        ready = self.wait(self.door.sockets() + list(members.values()), unsent, IDLE)
        now = time.monotonic()
        for rank, wire in members.items():
            self._hear(rank, wire, wire in ready, now)
        for rank, wire in self.door.look(ready):
            self._away(rank)
            self.members[rank] = wire
            self.council.comes(rank, now)
            self._send(rank, self.word)
        self._tell(now)

    def _hear(self, rank, wire, ready, now):
        try:
            wire.flush()
            for standing in wire.receive() if ready else ():
                self.council.stands(rank, standing, now)
        except Broken:
            self._away(rank)

    def _tell(self, now):
        self.council.stands(0, self.standing, now)
        word = self.council.consider(now)
        if word == self.word and now - self.sent_at < self.cluster.ping:
            return
        self.sent_at = now
        for rank in list(self.members):
            self._send(rank, word)
        self.hear(word)

    def _send(self, rank, word):
        try:
            self.members[rank].send(word)
        except Broken:
            self._away(rank)

    def _away(self, rank):
        wire = self.members.pop(rank, None)
        if wire:
            wire.close()
            self.council.goes(rank)
