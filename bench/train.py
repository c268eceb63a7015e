"""`orch train` until the run's id is printed, with unchanged code, beside `ssh HOST docker exec C true`.

    .venv/bin/python bench/train.py          (as root on Debian: it needs the fleet, see CONTRIBUTING.md)

One host of the fleet, one container of a small image, one project of a few files that the host has already.
Both are timed in turn on the same link; the runs are `true` and end at once. Prints medians and the ratio and
writes bench/train.json. The goal: at most twice the baseline.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from tests.fleet.lab import Fleet, why_not  # noqa: E402
from tests.fleet.lab.fleet import name_of_ours  # noqa: E402
from tests.fleet.orch import Orch, make_project  # noqa: E402
from tests.fleet.small import IMAGE, built  # noqa: E402

RUNS = 5
GOAL = 2.0
HOST = "gpu01"
CONTAINER = "orch-ana-mnist"
TRAIN = ("train", "-d", "-q", "--hosts", HOST, "--", "true")


def main() -> None:
    """Time both in turn, so that a drift of the machine meets both."""
    if reason := why_not():
        print(f"bench/train.py: not measured: {reason}")
        return
    with name_of_ours() as name, tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(name)
        fleet.up()
        try:
            report(*measured(fleet, Path(folder)))
        finally:
            fleet.down()


def measured(fleet: Fleet, folder: Path) -> tuple[list[str], dict[str, list[float]]]:
    """Deploy, and return the baseline's command and the seconds of every run of both."""
    home, project = folder / "home", make_project(folder / "mnist")
    orch = Orch(fleet, home=home, cwd=project, account="ana").having(ORCH_IMAGE=IMAGE)
    fleet[HOST].run(f"docker load -qi {built(orch, fleet[HOST])}")
    orch("deploy", "--yes", "--hosts", HOST)
    config = fleet.client.folder / "ssh_config"
    baseline = ["ssh", "-F", str(config), f"ana@{HOST}", "docker", "exec", CONTAINER, "true"]
    environ = orch.environment()
    programs = {"ssh": baseline, "orch": orch.argv(*TRAIN)}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(RUNS + 1):
        for name, command in programs.items():
            taken = seconds(command, environ, project)
            if number:  # the first is for the caches, and sends the code
                times[name].append(taken)
    return baseline, times


def seconds(command: list[str], environ: dict[str, str], cwd: Path) -> float:
    """Return how long it takes until the command has printed a line, or has ended."""
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        taken = time.perf_counter() - began
        said = process.stderr.read().decode()
    if process.returncode:
        sys.exit(f"{command[0]}: exit status {process.returncode}\n{said}")
    return taken


def report(baseline: list[str], times: dict[str, list[float]]) -> None:
    """Print the medians and the ratio, and write them down."""
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratio = medians["orch"] / medians["ssh"]
    print(f"baseline  {' '.join(baseline)}")
    for name, value in medians.items():
        print(f"{name:8}  {value * 1000:6.0f} ms")
    print(f"ratio     {ratio:6.2f}      (goal: {GOAL:.2f})")
    told = {"baseline": baseline, "seconds": times, "medians": medians, "ratio": ratio, "goal": GOAL}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
