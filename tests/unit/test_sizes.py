"""The supervisor's notes of how large the log was when."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.unit.supervised import SUPERVISE, Worker
from tests.until import until

NOTE = """
import sys; sys.path.insert(0, sys.argv[1])
from supervisor import sizes as module; module.SIZES = 8
times = iter(range(1000)); module.time.time = lambda: next(times)
sizes = module.Sizes(sys.argv[2])
for number in range(int(sys.argv[3])):
    print("x" * 9, flush=True); sizes.note(); sizes.note()
"""


def noted(folder: Path, lines: int) -> list[str]:
    """Let a log grow by ten bytes a line, and return the notes."""
    with (folder / "log").open("wb") as log:
        words = [sys.executable, "-B", "-c", NOTE, str(SUPERVISE.parent), str(folder), str(lines)]
        subprocess.run(words, check=True, stdout=log)
    return (folder / "sizes").read_text().splitlines()


def test_a_size_is_noted_once(tmp_path: Path) -> None:
    assert noted(tmp_path, 3) == ["0 10", "1 20", "2 30"]


def test_notes_do_not_grow_without_end_and_the_newest_are_closest(tmp_path: Path) -> None:
    times = [int(line.split()[0]) for line in noted(tmp_path, 40)]
    assert len(times) <= 8
    assert (times[0], times[-5:]) == (0, [35, 36, 37, 38, 39])
    assert times == sorted(times)


def test_a_disk_that_is_full_costs_notes_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "sizes").symlink_to("/dev/full")
    words = [sys.executable, "-B", "-c", NOTE, str(SUPERVISE.parent), str(tmp_path), "3"]
    assert subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout == b"xxxxxxxxx\n" * 3


def noted_so_far(worker: Worker) -> str:
    place = worker.folder / "sizes"
    return place.read_text() if place.exists() else ""


def test_a_supervisor_notes_them_at_the_start_and_at_each_heartbeat(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "gpu01")
    quick = tmp_path / "quick"
    shutil.copytree(SUPERVISE.parent / "supervisor", quick / "supervisor")
    shutil.copy(SUPERVISE, quick)
    training = quick / "supervisor" / "training.py"
    training.write_text(training.read_text().replace("HEARTBEAT = 10.0", "HEARTBEAT = 0.05"))
    began = int(time.time())
    worker.start(
        "sh", "-c", "echo hello; until [ -e go ]; do sleep 0.05; done", program=quick / "supervise.py"
    )
    until(lambda: noted_so_far(worker).endswith(" 6\n"), "the note of the first line")
    (worker.folder / "work" / "go").touch()
    worker.end()
    first = (worker.folder / "sizes").read_text().split()
    assert began <= int(first[0]) <= time.time()
    assert first[1] in ("0", "6")
