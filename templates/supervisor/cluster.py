"""Where the workers of a run are, by rank, and what their commands are told of it."""

import json


class Cluster:
    """The part `cluster` of launch.json."""

    def __init__(self, facts):
        self.rank = int(facts["rank"])
        self.hosts, self.addresses = facts["hosts"], facts["addresses"]
        self.ports, self.port = facts.get("ports") or [], facts["port"]
        self.link, self.token = facts["link"], facts["token"].encode("ascii")
        self.join = facts.get("join", 60.0)  # seconds until all workers have come
        self.rejoin = facts.get("rejoin", 600.0)  # the same at a restart: a host may be booting
        self.lost = facts.get("lost", 30.0)  # seconds without a word
        self.ping = facts.get("ping", 5.0)  # seconds between two words
        self.aside = facts.get("aside", 5.0)  # seconds for a command to end by itself after a peer's end

    @property
    def host(self):
        return self.hosts[self.rank]

    def others(self):
        return [host for host in self.hosts if host != self.host]

    def workers(self, ports):
        """Return `address:port` of each worker."""
        return ["{}:{}".format(bracketed(address), port) for address, port in zip(self.addresses, ports)]

    def environment(self, workers, attempt):
        """Return the variables that tell a command of its place among the workers (`address:port`)."""
        task = {"type": "worker", "index": self.rank}
        return {
            "TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task}),
            "ORCH_NODE_RANK": str(self.rank),
            "ORCH_NODES": str(len(workers)),
            "ORCH_CHIEF": workers[0],
            "ORCH_WORKERS": ",".join(workers),
            "ORCH_ATTEMPT": str(attempt),
        }


def bracketed(address):
    """Return an address as it stands before a port: IPv6 in brackets."""
    return "[{}]".format(address) if ":" in address else address
