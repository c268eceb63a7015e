"""Fetching files, on real shells and file systems."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import HostError, OrchError
from orchestrator.files.bringing import fetch
from orchestrator.files.fetching import check_room, named, plan, written
from orchestrator.hosts.line import Line
from tests.unit.here import Here
from tests.unit.transfer.trees import ODD, fill, put, tree


def bring(machine: Here, path: Path | str, to: Path, *, overwrite: bool = False) -> list[str]:
    source = named(machine, str(path), to)
    chosen = plan(source.wanted, overwrite=overwrite)
    return [*source.notes, *chosen.kept, *fetch(Line(machine), source, chosen.take, to.parent)]


def test_a_folder_arrives_as_it_is(machine: Here, there: Path, here: Path) -> None:
    for number, name in enumerate(ODD):
        put(there / "d" / "sub" / name, os.urandom(number * 30_000), 1_600_000_000 + number)
    (there / "d" / "sub" / "link").symlink_to("../run.sh")
    put(there / "d" / "run.sh", "#!").chmod(0o755)
    os.link(there / "d" / "run.sh", there / "d" / "hard")
    assert bring(machine, there / "d", here / "d") == []
    assert tree(here / "d") == tree(there / "d")
    got = here / "d" / "sub" / ODD[2]
    assert int(got.stat().st_mtime) == 1_600_000_002
    assert os.access(here / "d" / "run.sh", os.X_OK)
    assert not os.access(got, os.X_OK) or os.geteuid() == 0
    assert got.stat().st_mode & 0o111 == 0


def test_what_came_already_is_not_sent_again(machine: Here, there: Path, here: Path) -> None:
    fill(there, a="1", b="2")
    assert bring(machine, there, here / "d") == []
    put(there / "b", "3", 1_700_000_005)
    source = named(machine, str(there), here / "d")
    chosen = plan(source.wanted, overwrite=False)
    assert ([w.name for w in chosen.take], chosen.same, chosen.size) == (["b"], 1, 1)


def test_a_newer_file_here_stays_unless_overwritten(machine: Here, there: Path, here: Path) -> None:
    put(there / "a", "there", 1000)
    put(here / "d" / "a", "here", 2000)
    assert bring(machine, there, here / "d") == [
        f"kept: {here}/d/a (newer here; --overwrite takes the other)"
    ]
    assert tree(here / "d") == {"a": b"here"}
    assert bring(machine, there, here / "d", overwrite=True) == []
    assert tree(here / "d") == {"a": b"there"}
    put(there / "a", "once more", 3000)  # newer there
    assert bring(machine, there, here / "d") == []
    assert tree(here / "d") == {"a": b"once more"}


def test_one_file_through_a_link(machine: Here, there: Path, here: Path) -> None:
    put(there / "model.h5", "weights")
    (there / "latest").symlink_to("model.h5")
    assert bring(machine, "~/there/latest", here / "best.h5") == []
    assert tree(here) == {"best.h5": b"weights"}


def test_what_is_not_there_is_said(machine: Here, there: Path, here: Path) -> None:
    with pytest.raises(HostError, match=r"here: ~/there/x is not there"):
        bring(machine, "~/there/x", here / "x")
    os.mkfifo(there / "fifo")
    fill(there, a="1")
    assert bring(machine, there, here / "d") == ["not fetched: fifo (neither file nor folder)"]
    with pytest.raises(HostError, match="neither a file nor a folder"):
        bring(machine, there / "fifo", here / "x")


def test_a_file_that_goes_meanwhile_is_said_and_the_others_come(
    machine: Here, there: Path, here: Path
) -> None:
    fill(there, a="1", b="2", c="3")
    source = named(machine, str(there), here / "d")
    (there / "b").unlink()
    notes = fetch(Line(machine), source, plan(source.wanted, overwrite=False).take, here)
    assert len(notes) == 1
    assert notes[0].startswith("not fetched: b (tar: ")
    assert tree(here / "d") == {"a": b"1", "c": b"3"}


def test_a_folder_here_is_not_replaced_by_a_file(machine: Here, there: Path, here: Path) -> None:
    fill(there, a="1")
    (here / "d" / "a").mkdir(parents=True)
    assert bring(machine, there, here / "d") == [f"kept: {here}/d/a (a folder here)"]


def test_what_can_t_be_written_is_one_line(machine: Here, there: Path, here: Path) -> None:
    put(there / "sub" / "a", "1")
    put(here / "d" / "sub", "a file")
    with pytest.raises(OrchError, match=r"sub/a can't be written: (file exists|not a directory)"):
        bring(machine, there, here / "d")


def test_room_is_checked_before(here: Path) -> None:
    check_room(1, here / "not" / "made" / "yet")
    with pytest.raises(OrchError, match=r"no room in .*: 1\.0 EB needed|1000 PB needed"):
        check_room(10**18, here)


def test_what_a_run_wrote_is_what_its_code_has_not(machine: Here, there: Path, here: Path) -> None:
    bundle, worker = there / "bundle", there / "run" / "gpu01"
    fill(bundle, **{"train.py": "1", "config.json": "{}", "data/x": "x"})
    (bundle / "link").symlink_to("train.py")
    worker.mkdir(parents=True)
    subprocess.run(["cp", "-R", "-p", bundle, worker / "work"], check=True)
    work = worker / "work"
    put(work / "config.json", "[]", 1_700_000_001)
    put(work / "checkpoints/1.h5", "w")
    put(work / "__pycache__/train.pyc", "c")
    (work / "best").symlink_to("checkpoints/1.h5")
    source = written(machine, str(worker), str(bundle), here / "d")
    chosen = plan(source.wanted, overwrite=False)
    assert sorted(w.name for w in chosen.take) == ["best", "checkpoints/1.h5", "config.json"]
    assert fetch(Line(machine), source, chosen.take, here / "d") == []
    assert tree(here / "d") == {"best": b"checkpoints/1.h5", "checkpoints/1.h5": b"w", "config.json": b"[]"}
    shutil.rmtree(bundle)  # its code was cleared away: all of it is taken
    source = written(machine, str(worker), str(bundle), here / "d")
    assert len(plan(source.wanted, overwrite=False).take) == 3
    shutil.rmtree(work)
    with pytest.raises(HostError, match="no work folder any more"):
        written(machine, str(worker), str(bundle), here / "d")
