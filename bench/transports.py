"""A connection and a question by each transport, beside `ssh HOST 'echo hi'`: medians and the quickest.

    .venv/bin/python bench/transports.py

The host is an sshd of this machine. A connection holds for all questions of a call, ssh's for one alone.
Prints one line for each and writes bench/transports.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from tests.ssh.server import Server, serving

RUNS = 15
TRANSPORTS = ("fabric", "openssh")
HI = Script("hi", "echo hi")


def seconds(work: Callable[[], object]) -> float:
    """Return how long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def one_of_each(server: Server, times: dict[str, list[float]]) -> None:
    """Time all in turn, so that a drift of the machine meets each of them."""
    known = f"UserKnownHostsFile={server.known_hosts}"
    ssh = [
        "ssh",
        "-F",
        "none",
        "-i",
        server.login,
        "-p",
        str(server.port),
        "-o",
        known,
        "127.0.0.1",
        "echo hi",
    ]
    times["ssh HOST 'echo hi'"].append(seconds(lambda: subprocess.run(ssh, check=True, capture_output=True)))
    for name in TRANSPORTS:
        began = time.perf_counter()
        with connect(server.host(transport=name)) as machine:
            times[f"{name}: connect"].append(time.perf_counter() - began)
            times[f"{name}: question"].append(seconds(lambda: machine.run(HI)))


def main() -> None:
    """Start an sshd, time, and tell."""
    names = [
        "ssh HOST 'echo hi'",
        *(f"{name}: {what}" for name in TRANSPORTS for what in ("connect", "question")),
    ]
    times: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "gpu01") as server:
        server.trust()
        os.environ["HOME"] = str(server.client)
        os.environ.pop("SSH_AUTH_SOCK", None)
        for _ in range(RUNS):
            one_of_each(server, times)
    for name, values in times.items():
        print(
            f"{name:20}  {statistics.median(values) * 1000:6.1f} ms   quickest {min(values) * 1000:6.1f} ms"
        )
    medians = {name: statistics.median(values) for name, values in times.items()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    main()
