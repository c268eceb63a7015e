"""When a run is started again by itself, and what is told of it."""

import time

DEFAULT = ("lost", "nccl", "gpu")
TOLD = 10  # restarts of which all is kept; of earlier ones when they were, as state.json has to stay small
LONGEST = 300.0  # seconds between an end and the next start, at most


class Restarts:
    """The part `restarts` of launch.json, and the restarts so far."""

    def __init__(self, facts, past=()):
        facts = facts or {}
        self.most = facts.get("max", 0)
        self.on = facts.get("on") or DEFAULT
        self.first = facts.get("delay", 5.0)  # seconds before the first one; each next waits twice as long
        self.past = list(past)

    def after(self, kind):
        """Return the seconds to wait after an end of this class; None: it is the last."""
        if kind not in self.on or len(self.past) >= self.most:
            return None
        return min(LONGEST, self.first * 2 ** min(len(self.past), 60))

    def note(self, host, why):
        """Count one; return the line of the log that tells of it."""
        self.past.append({"at": time.time(), "host": host, "cause": why})
        self.past[:-TOLD] = [{"at": int(entry["at"])} for entry in self.past[:-TOLD]]
        return "orch: restart {} of {} after: {}".format(len(self.past), self.most, words(why))


def words(why):
    """Return a cause in short words; status.py has the long ones."""
    kind = why.get("kind")
    if kind == "peer":
        own = words(why.get("cause") or {})
        return "peer {} {}{}".format(why["host"], why["how"], ": " + own if own else "")
    said = {"exit": "code", "signal": "signal", "timeout": "seconds"}.get(kind)
    return why.get("exception") or why.get("how") or " ".join(str(w) for w in (kind, why.get(said)) if w)
