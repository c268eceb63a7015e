"""Files from a host: `orch cp`, beside `ssh host tar c | tar x`.

    .venv/bin/python bench/fetch.py

Once 10,000 files of 4 kB in 100 folders, once one file of 1 GB, random. The host is an sshd on this machine,
and both log in anew each time. `orch` lists what there is, takes it, and looks whether it changed meanwhile.

Prints medians and ratios and writes bench/fetch.json. The goal: within 1.5 times `tar`.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from fanout import ORCH, fleet

HOST = "127.0.1.1"
RUNS = 5
FILES, FOLDERS, BYTES = 10_000, 100, 4_096
LARGE = 1_000_000_000
TAR = "mkdir {here} && ssh -F {config} {host} tar -C {there} -cf - . | tar -C {here} -xf -"


def main() -> None:
    """Time both in turn, so that a drift of the machine meets both."""
    with tempfile.TemporaryDirectory() as name, fleet(Path(name), [HOST]) as environ:
        folder = Path(name)
        told = {}
        for kind, there in (("small files", small(folder / "small")), ("one file", large(folder / "large"))):
            found = timed(folder, there, environ)
            medians = {program: statistics.median(seconds) for program, seconds in found.items()}
            ratio = medians["orch"] / medians["tar"]
            print(
                f"{kind:12}  tar {medians['tar']:6.2f} s   orch {medians['orch']:6.2f} s   ratio {ratio:5.2f}"
            )
            told[kind] = {"seconds": found, "ratio": ratio}
    print(f"baseline      {TAR}")
    Path(__file__).with_suffix(".json").write_text(json.dumps({"baseline": TAR, **told}, indent=2) + "\n")


def small(top: Path) -> Path:
    """Write many files."""
    for number in range(FILES):
        place = top / f"part{number % FOLDERS:02}" / f"file{number:05}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(os.urandom(BYTES))
        os.utime(place, (1_700_000_000, 1_700_000_000))  # as of a run that ended some time ago
    return top


def large(top: Path) -> Path:
    """Write one file."""
    top.mkdir()
    with (top / "model.h5").open("wb") as file:
        for _ in range(LARGE // 10**6):
            file.write(os.urandom(10**6))
    os.utime(top / "model.h5", (1_700_000_000, 1_700_000_000))
    return top


def timed(folder: Path, there: Path, environ: Mapping[str, str]) -> dict[str, list[float]]:
    """Return the seconds of each program, of all its runs but the first."""
    found: dict[str, list[float]] = {"tar": [], "orch": []}
    config = folder / "home/.ssh/config"
    for _ in range(RUNS + 1):
        for program, seconds in found.items():
            here = folder / f"here-{program}"
            line = TAR.format(here=here, config=config, host=HOST, there=there)
            words = ["sh", "-c", line] if program == "tar" else [ORCH, "cp", f"{HOST}:{there}", str(here)]
            began = time.perf_counter()
            done = subprocess.run(words, check=False, env=environ, cwd=environ["HOME"], capture_output=True)
            seconds.append(time.perf_counter() - began)
            if done.returncode:
                sys.exit(f"{program}: exit status {done.returncode}\n{done.stderr.decode()}")
            shutil.rmtree(here)
    return {program: seconds[1:] for program, seconds in found.items()}


if __name__ == "__main__":
    main()
