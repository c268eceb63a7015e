"""The upload of code: `orch`, beside `tar | ssh tar` for all of it and `rsync` for one changed file.

    .venv/bin/python bench/upload.py

The code is 10,000 files of 4 kB in 100 folders, random, so that nothing gains by compression. The host is an
sshd on this machine. Each program has its connection open before (ssh by a ControlMaster), as `orch train`
has when it finds that the host lacks the code. Timed is what a launch does then: `collect` (what there is,
and its digests) and `upload`.

Prints medians and writes bench/upload.json. The goals: all of it uploaded within 1.2 times `tar | ssh tar`;
one changed file, collected and uploaded, within `rsync` plus 0.5 s.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fanout import PORT, fleet

from orchestrator.hosts.base import Machine
from orchestrator.hosts.connect import connect
from orchestrator.inventory import Host
from orchestrator.run.code.bundle import Bundle, collect
from orchestrator.run.code.upload import upload

HOST = "127.0.1.1"
RUNS = 5
FILES, FOLDERS, BYTES = 10_000, 100, 4_096
TAR = "tar -C {code} -cf - . | {ssh} 'mkdir -p {there} && tar -C {there} -xf -'"
RSYNC = "rsync -a -e {rsh} {code}/ {host}:{there}/"


def main() -> None:
    """Time both in turn, so that a drift of the machine meets both."""
    if not shutil.which("rsync"):
        sys.exit("bench/upload.py: needs rsync (apt-get install rsync)")
    with tempfile.TemporaryDirectory() as name, fleet(Path(name), [HOST]) as environ:
        os.environ.update(environ)
        folder = Path(name)
        code = project(folder / "code")
        with master(folder) as ssh, connect(Host(HOST, HOST, port=PORT)) as machine:
            report(timed(folder, code, ssh, machine), ssh)


def project(top: Path) -> Path:
    """Write the files."""
    for number in range(FILES):
        place = top / f"part{number % FOLDERS:02}" / f"file{number:05}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(os.urandom(BYTES))
    return top


@contextmanager
def master(folder: Path) -> Iterator[list[str]]:
    """Open the connection that ssh and rsync share; yield the words that use it."""
    ssh = ["ssh", "-F", str(folder / "home/.ssh/config"), "-o", f"ControlPath={folder}/control"]
    subprocess.run([*ssh, "-o", "ControlMaster=yes", "-fN", HOST], check=True)
    try:
        yield ssh
    finally:
        subprocess.run([*ssh, "-O", "exit", HOST], check=True, stderr=subprocess.DEVNULL)


def timed(folder: Path, code: Path, ssh: list[str], machine: Machine) -> dict[str, list[float]]:
    """Return the seconds of each program, of all its runs."""
    found: dict[str, list[float]] = {}
    edited = code / "part07/file00007.py"
    for run in range(RUNS + 1):
        place, there = folder / f"orch{run}", folder / f"there{run}"
        cache = folder / f"cache{run}"
        words = {
            "code": code,
            "there": there,
            "ssh": shlex.join([*ssh, HOST]),
            "rsh": shlex.quote(shlex.join(ssh)),
        }

        def sent(part: str, place: Path = place, cache: Path = cache) -> Bundle:
            began = time.perf_counter()
            bundle = collect(code, cache=cache)
            collected = time.perf_counter()
            upload(machine, str(place), bundle)
            took = {"upload": time.perf_counter() - collected, "collect": collected - began}
            for name, seconds in took.items():
                found.setdefault(f"{part}: orch, {name}", []).append(seconds)
            return bundle

        found.setdefault("all: tar", []).append(seconds_of(lambda w=words: shell(TAR.format(**w))))
        sent("all")
        edited.write_bytes(os.urandom(BYTES))
        found.setdefault("one: rsync", []).append(
            seconds_of(lambda w=words: shell(RSYNC.format(host=HOST, **w)))
        )
        bundle = sent("one")
        check(place / "bundles" / bundle.digest, code)
        for used in (place, there):
            shutil.rmtree(used)
    return {name: seconds[1:] for name, seconds in found.items()}  # the first warms up


def shell(line: str) -> None:
    """Run a line."""
    subprocess.run(["sh", "-c", line], check=True, stdin=subprocess.DEVNULL)


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long it took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def check(there: Path, code: Path) -> None:
    """End the benchmark when what arrived is not what was sent."""
    if subprocess.run(["diff", "-r", str(there), str(code)], check=False).returncode:
        sys.exit("what arrived is not what was sent")


def report(found: dict[str, list[float]], ssh: list[str]) -> None:
    """Print the medians, and write them down."""
    median = {name: statistics.median(seconds) for name, seconds in found.items()}
    words = {
        "code": "CODE",
        "there": "THERE",
        "ssh": shlex.join([*ssh, HOST]),
        "rsh": shlex.quote(shlex.join(ssh)),
    }
    baselines = [TAR.format(**words), RSYNC.format(host=HOST, **words)]
    for line in baselines:
        print(f"baseline  {line}")
    for name, seconds in median.items():
        print(f"{name:20} {seconds:6.2f} s")
    one = median["one: orch, collect"] + median["one: orch, upload"]
    goals = {
        "all, upload / tar (at most 1.2)": median["all: orch, upload"] / median["all: tar"],
        "one, collect and upload - rsync (at most 0.5 s)": one - median["one: rsync"],
    }
    for name, value in goals.items():
        print(f"{value:6.2f}  {name}")
    told = {"baselines": baselines, "seconds": found, "medians": median, "goals": goals}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
