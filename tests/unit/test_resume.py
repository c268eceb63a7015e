"""Going on with a run's work, by a real sh and a real supervisor: on its host, and on another one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import Busy, HostError, Refused
from orchestrator.files.archive import time_of
from orchestrator.render import render
from orchestrator.run.launch import Launched, Taking, launch
from orchestrator.run.record import Record
from orchestrator.run.resume import claim, copy_work, give_back, taking
from orchestrator.run.stop import stop
from tests.unit.run_place import Place
from tests.until import until

OWN = secrets.token_hex(4)  # a stop sweeps the whole machine for its run, and tests run side by side


def run(number: int) -> str:
    return f"20261130-0214-{OWN}-{number:04x}"


def place_in(folder: Path) -> Place:
    place = Place(folder)
    place.deploy()
    return place


def end_all(place: Place) -> None:
    for found in place.records():
        stop(place.machine, found, by="test", grace=0)
    place.machine.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = place_in(tmp_path / "root")
    yield place
    end_all(place)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Place]:
    place = place_in(tmp_path / "other")
    place.host = replace(place.host, name="gpu02")
    place.machine.host = place.host
    yield place
    end_all(place)


def bundle(place: Place, name: str, files: dict[str, str]) -> None:
    """Code as an upload leaves it: read-only, with times of its content."""
    folder = place.folder / "bundles" / name
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o444)
        when = time_of(f"{abs(hash(text)) % 16**7:07x}")
        os.utime(file, (when, when))


def ended(place: Place, number: int, *command: str, **fields: str) -> Record:
    """Let a run come to its end; return its record."""
    place.launch(*command, run=run(number), watch=20, **fields)
    (found,) = place.records(run(number))
    assert found.state["ended"]
    return found


def resume(place: Place, old: Record, number: int, *command: str, stale: str = "", **fields: str) -> Launched:
    order = place.order(
        *command, run=run(number), watch=20, parent={"run": old.spec.run, "kind": "resume"}, **fields
    )
    return launch(place.machine, replace(order, takes=taking(old, stale)))


def work(place: Place, number: int, host: str = "gpu01") -> Path:
    return place.folder / "runs" / run(number) / host / "work"


def test_a_run_goes_on_in_the_work_of_another_and_both_say_so(place: Place) -> None:
    old = ended(place, 1, "sh", "-c", "mkdir checkpoints; echo 7 > checkpoints/epoch; exit 3")
    done = resume(place, old, 2, "cat", "checkpoints/epoch")
    assert (done.log, done.state["state"], done.laid) == ("7", "succeeded", ())
    assert not work(place, 1).exists()
    (before,) = place.records(run(1))
    assert (before.continued_by, before.continued_on) == (run(2), "gpu01")
    assert done.spec.parent == {"run": run(1), "kind": "resume"}
    assert (place.folder / "runs" / run(1) / "gpu01" / "training.log").exists(), "the log stays where it was"
    assert f"resume {run(2)}\n" in (place.folder / "audit.log").read_text()
    with pytest.raises(Refused, match=f"run {run(1)} goes on as {run(2)} already") as refused:
        resume(place, before, 3, "true")
    assert f"orch resume {run(2)}" in str(refused.value)
    assert not (place.folder / "runs" / run(3)).exists()
    (second,) = place.records(run(2))
    assert resume(place, second, 4, "cat", "checkpoints/epoch").log == "7"


def test_a_run_that_lives_does_not_go_on(place: Place) -> None:
    place.launch("sleep", "60", run=run(1))
    (living,) = place.records()
    with pytest.raises(Busy, match=f"run {run(1)} still runs. End it first: orch stop {run(1)}"):
        resume(place, living, 2, "true")
    assert work(place, 1).exists()
    assert not (place.folder / "runs" / run(2)).exists()


CODE = {
    "same.py": "same",
    "edited.py": "old",
    "both.cfg": "old",
    "ran.csv": "old",
    "gone.py": "old",
    "gone_ran.txt": "old",
}
EDITED = {
    "same.py": "same",
    "edited.py": "new",
    "both.cfg": "new",
    "ran.csv": "old",
    "new/a b.py": "new",
    "made.txt": "new",
}
RAN = "for f in both.cfg ran.csv made.txt gone_ran.txt; do rm -f $f; echo ran > $f; done"


def test_code_is_laid_over_code_and_what_the_run_wrote_stays(place: Place) -> None:
    bundle(place, "b1", CODE)
    bundle(place, "b2", EDITED)
    old = ended(place, 1, "sh", "-c", RAN)
    done = resume(place, old, 2, "sh", "-c", "echo more >> edited.py", bundle="b2")
    files = {
        str(f.relative_to(work(place, 2))): f.read_text() for f in work(place, 2).rglob("*") if f.is_file()
    }
    assert files == {
        "same.py": "same",
        "edited.py": "newmore\n",
        "both.cfg": "new",
        f"both.cfg.{run(1)}": "ran\n",
        "ran.csv": "ran\n",
        "new/a b.py": "new",
        "made.txt": "ran\n",
        "gone_ran.txt": "ran\n",
    }
    assert sorted(done.laid) == ["kept made.txt", "replaced both.cfg"]


def test_with_the_old_code_gone_nothing_of_the_run_is_lost(place: Place) -> None:
    bundle(place, "b1", {"a.py": "old"})
    bundle(place, "b2", {"a.py": "new"})
    old = ended(place, 1, "true")
    shutil.rmtree(place.folder / "bundles" / "b1", ignore_errors=True)
    resume(place, old, 2, "true", bundle="b2")
    assert (work(place, 2) / "a.py").read_text() == "new"
    assert (work(place, 2) / f"a.py.{run(1)}").read_text() == "old"


def test_links_and_executables_are_code_too(place: Place) -> None:
    bundle(place, "b1", {"run.sh": "#!/bin/sh\necho went", "a": "1", "b": "2"})
    (place.folder / "bundles/b1/link").symlink_to("a")
    bundle(place, "b2", {"run.sh": "#!/bin/sh\necho went", "a": "1", "b": "2"})
    (place.folder / "bundles/b2/link").symlink_to("b")
    (place.folder / "bundles/b2/run.sh").chmod(0o555)
    old = ended(place, 1, "true")
    assert resume(place, old, 2, "sh", "-c", "./run.sh; cat link", bundle="b2").log == "went\n2"


@pytest.mark.parametrize("moved", [True, False])
def test_a_resume_that_broke_off_is_done_by_the_next(place: Place, moved: bool) -> None:
    """It had written where the run goes on, and had or had not moved the work; its run never began."""
    old = ended(place, 1, "sh", "-c", "echo 7 > epoch")
    (place.folder / "runs" / run(1) / "continued_by").write_text(f"{run(2)}\ngpu01\n")
    half = work(place, 2).parent
    half.mkdir(parents=True)
    if moved:
        work(place, 1).rename(work(place, 2))
    assert resume(place, old, 3, "cat", "epoch").log == "7"
    assert (place.folder / "runs" / run(1) / "continued_by").read_text() == f"{run(3)}\ngpu01\n"
    assert not moved or not half.parent.exists(), "nothing is left of it"


def test_a_resume_that_fails_leaves_the_run_as_it_was(place: Place) -> None:
    old = ended(place, 1, "sh", "-c", "echo 7 > epoch; : > taken")
    bundle(place, "b2", {"taken/a.py": "new"})
    with pytest.raises(HostError, match="could not be placed"):
        resume(place, old, 2, "true", bundle="b2")
    assert (work(place, 1) / "epoch").read_text() == "7\n"
    assert not (place.folder / "runs" / run(2)).exists()
    assert not (place.folder / "runs" / run(1) / "continued_by").exists()
    assert resume(place, old, 3, "cat", "epoch").log == "7"


def elsewhere(
    place: Place, other: Place, old: Record, number: int, *command: str, stale: str = ""
) -> Launched:
    order = replace(other.order(*command, run=run(number), watch=20), takes=taking(old, stale))
    claimed = claim(place.machine, "gpu02", old, order)
    return launch(other.machine, copy_work(place.machine, other.machine, claimed, order))


def launched_on(other: Place) -> list[str]:
    return sorted(f.name for f in (other.folder / "runs").iterdir() if f.name != "latest")


def test_a_run_goes_on_on_another_host(place: Place, other: Place) -> None:
    old = ended(
        place, 1, "sh", "-c", "mkdir 'c p'; head -c 300000 /dev/urandom > 'c p/01.ckpt'; echo 7 > epoch"
    )
    done = elsewhere(place, other, old, 2, "cat", "epoch")
    assert done.log == "7"
    there = work(other, 2, "gpu02")
    assert (there / "c p/01.ckpt").read_bytes() == (work(place, 1) / "c p/01.ckpt").read_bytes()
    (before,) = place.records(run(1))
    assert (before.continued_by, before.continued_on) == (run(2), "gpu02")
    assert launched_on(other) == [run(2)], "what it was brought in is gone"
    with pytest.raises(Refused, match=f"goes on as {run(2)} already"):
        elsewhere(place, other, before, 3, "true")
    with pytest.raises(Refused, match=f"goes on as {run(2)} already"):
        resume(place, before, 3, "true")
    assert resume(place, before, 4, "cat", "epoch", stale=run(2)).log == "7", "it was only copied"


def test_a_copy_that_is_cut_off_leaves_nothing(place: Place, other: Place) -> None:
    old = ended(place, 1, "sh", "-c", "head -c 3000000 /dev/zero > big")
    order = replace(other.order("true", run=run(2)), takes=taking(old))
    claimed = claim(place.machine, "gpu02", old, order)

    def cut(sent: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_work(place.machine, other.machine, claimed, order, told=cut)
    give_back(place.machine, other.machine, old, order, claimed.staged)
    until(lambda: not list((other.folder / "runs").glob(".staged-*")))
    assert not (place.folder / "runs" / run(1) / "continued_by").exists()
    assert elsewhere(place, other, old, 3, "ls").log == "big\ndata.txt\nsrc"


def test_what_came_whole_stays_when_the_script_is_ended_on_its_last_word(
    place: Place, other: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, group = ended(place, 1, "sh", "-c", "echo 7 > epoch"), tmp_path / "group"

    def slow_to_end(name: str, **values: object) -> str:
        text = render(name, **values)
        return f"echo $$ > {group}\n{text}\nsleep 60\n" if name == "run/work_in.sh.j2" else text

    def ended_there() -> bool:
        try:
            os.killpg(int(group.read_text()), 0)
        except ProcessLookupError:
            return True
        return False

    monkeypatch.setattr("orchestrator.run.resume.render", slow_to_end)
    order = replace(other.order("cat", "epoch", run=run(2), watch=20), takes=taking(old))
    claimed = claim(place.machine, "gpu02", old, order)
    brought = copy_work(place.machine, other.machine, claimed, order)
    until(ended_there)
    assert launch(other.machine, brought).log == "7"


def test_a_disk_without_room_is_told_before_anything_is_sent(place: Place, other: Place) -> None:
    old = ended(place, 1, "true")
    order = replace(other.order("true", run=run(2)), takes=taking(old))
    claimed = replace(claim(place.machine, "gpu02", old, order), size=10**18)
    with pytest.raises(HostError, match=r"no space left on device: the work is .*, .* free"):
        copy_work(place.machine, other.machine, claimed, order)


def test_the_work_of_a_run_is_gone(place: Place) -> None:
    old = ended(place, 1, "true")
    shutil.rmtree(work(place, 1))
    with pytest.raises(HostError, match=f"the work of run {run(1)} is gone") as error:
        resume(place, old, 2, "true")
    assert f"orch rerun {run(1)}" in str(error.value)
    assert taking(old) == Taking(run(1), "gpu01", "b1")
    assert json.loads((place.folder / "runs" / run(1) / "spec.json").read_text())["run"] == run(1)
