"""How long `orch` takes to start, beside a bare interpreter: medians of whole processes.

    .venv/bin/python bench/startup.py

Prints one line per command and writes bench/startup.json. The goal: `orch --version` within 80 ms of
`python3 -c pass`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
ORCH = str(Path(sys.executable).with_name("orch"))
COMMANDS = {
    "python3 -c pass": [sys.executable, "-c", "pass"],
    "orch --version": [ORCH, "--version"],
    "orch --help": [ORCH, "--help"],
    "orch ps --help": [ORCH, "ps", "--help"],
}


def seconds(command: list[str]) -> float:
    """Return the wall time of one run."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Time the commands in turn, so that a drift of the machine meets all of them."""
    for command in COMMANDS.values():
        seconds(command)
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    bare = medians["python3 -c pass"]
    for name, value in medians.items():
        print(f"{name:18}  {value * 1000:6.1f} ms   {(value - bare) * 1000:+6.1f} ms over a bare interpreter")
    Path(__file__).with_suffix(".json").write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    main()
