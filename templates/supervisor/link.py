"""A thread that keeps a supervisor in touch with the others, whatever holds up the supervisor itself."""

import os
import select
import sys
import threading

IDLE = 1.0  # seconds between two looks at the clock


class Link(threading.Thread):
    """Says how this worker stands, and hears what the chief says of all (its `word`, see Council)."""

    def __init__(self, cluster, wake, restarts):
        super().__init__(daemon=True)
        self.cluster, self.wake, self.restarts = cluster, wake, restarts
        self.lock = threading.Lock()
        self.standing, self.word = {}, {}
        self.leaving = False
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.readable, False)
        os.set_blocking(self.writable, False)

    def begin(self, **fields):
        """Say that this is so, and nothing else any more."""
        with self.lock:
            self.standing = fields
        self.poke()

    def stand(self, **fields):
        """Say that this is so from now on."""
        with self.lock:
            self.standing = dict(self.standing, **fields)
        self.poke()

    def leave(self, seconds):
        """Say goodbye, and wait until that has come, or for so long."""
        self.leaving = True
        self.stand(left=True)
        self.join(seconds)

    def poke(self):
        try:
            os.write(self.writable, b".")
        except OSError:
            pass  # full: it is awake

    def hear(self, word):
        """Keep the newest word, and wake the supervisor for it."""
        if word != self.word:
            self.word = word
            self.wake()

    def wait(self, sockets, unsent, seconds):
        """Return the sockets with something to read, after at most so many seconds."""
        ready, _, _ = select.select([self.readable] + sockets, unsent, [], max(0.0, seconds))
        if self.readable in ready:
            try:
                os.read(self.readable, 4096)
            except OSError:
                pass
        return ready

    def run(self):
        try:
            self.keep()
        except Exception as error:  # the supervisor must not wait for a thread that is no more
            message = "the link to the other workers failed: {!r}".format(error)
            print("orch: " + message, file=sys.stderr, flush=True)
            self.hear(self.last(self.cluster.rank, "failed", {"kind": "not started", "message": message}))

    def last(self, rank, how, cause, again=None):
        """Return a verdict that this worker comes to by itself."""
        return {
            "is": "verdict",
            "attempt": self.standing.get("attempt", 0),
            "rank": rank,
            "host": self.cluster.hosts[rank],
            "how": how,
            "cause": cause,
            "again": again,
            "for": [],
        }

    def keep(self):
        raise NotImplementedError
