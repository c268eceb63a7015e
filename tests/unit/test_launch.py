"""The launch script, run by a real sh on this machine, with a venv-like environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.container.ready import NoEnvironment
from orchestrator.errors import Busy, HostError
from orchestrator.run.code.bundle import collect
from orchestrator.run.code.upload import upload
from orchestrator.run.refusals import NeedsBundle
from tests.unit.run_place import RUN, Place, place, tool
from tests.until import until

__all__ = ["place"]  # a fixture


def test_a_launch_says_how_the_command_began(place: Place) -> None:
    launched = place.launch("sleep", "60")
    assert launched.state["state"] == "running"
    assert launched.place == str(place.folder)
    assert launched.gpus is None
    spec = json.loads((place.folder / "runs" / "latest" / "spec.json").read_text())
    assert spec["argv"] == ["sleep", "60"]
    assert f"ana@laptop train {RUN}1\n" in (place.folder / "audit.log").read_text()


def test_words_and_variables_arrive_as_they_are(place: Place) -> None:
    words = ["a b", "'", '"', "$HOME", "`id`", "x\ny", "\\", "*", "", "é"]
    code = (
        "import os, sys, json; print(json.dumps([sys.argv[1:], os.environ['V'], os.environ['ORCH_PERSON']]))"
    )
    place.launch("python3", "-c", code, *words, env={"V": "1; touch pwned '\"\n$(id)"}, watch=20)
    said = json.loads((place.worker() / "training.log").read_text())
    assert said == [words, "1; touch pwned '\"\n$(id)", "ana maria"]


def test_many_words_and_any_bytes_arrive(place: Place) -> None:
    words = ["x" * 100_000, "y" * 100_000, os.fsdecode(b"\xff\xfe")]
    code = "import os, sys; print([len(os.fsencode(w)) for w in sys.argv[1:]], os.fsencode(sys.argv[3]))"
    assert place.launch("python3", "-c", code, *words, watch=20).log == "[100000, 100000, 2] b'\\xff\\xfe'"


def test_the_value_of_a_variable_is_nowhere_in_the_record(place: Place) -> None:
    place.launch("sleep", "60", env={"TOKEN": "hush-hush"})
    for file in (place.folder / "runs").rglob("*"):
        assert not file.is_file() or b"hush-hush" not in file.read_bytes()


def test_work_is_a_writable_copy_of_the_bundle(place: Place) -> None:
    place.launch("sh", "-c", "echo more >> data.txt; pwd", watch=20)
    work = place.worker() / "work"
    assert (work / "data.txt").read_text() == "kept\nmore\n"
    assert (place.folder / "bundles" / "b1" / "data.txt").read_text() == "kept\n"
    assert (place.worker() / "training.log").read_text() == f"{work}\n"


def test_what_happens_here_after_the_launch_changes_nothing_there(place: Place, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.sh").write_text("until [ -e go ]; do sleep 0.05; done; . ./part.sh\n")
    (project / "part.sh").write_text("echo as it was; echo 'echo mine' > part.sh\n")
    (project / "gone.sh").write_text("echo still here\n")
    bundle = collect(project, cache=tmp_path / "cache")
    upload(place.machine, str(place.folder), bundle)
    place.launch("sh", "-c", "sh train.sh; sh gone.sh; sh part.sh", bundle=bundle.digest)
    (project / "part.sh").write_text("echo edited\n")
    (project / "gone.sh").unlink()
    (place.worker() / "work" / "go").touch()
    log = place.worker() / "training.log"
    until(lambda: log.read_text().endswith("mine\n"))
    assert log.read_text() == "as it was\nstill here\nmine\n"
    sent = place.folder / "bundles" / bundle.digest
    assert collect(sent, cache=Path("/dev/null/none")).digest == bundle.digest


def test_the_command_runs_in_the_same_sub_folder(place: Place) -> None:
    place.launch("pwd", sub="src", watch=20)
    assert (place.worker() / "training.log").read_text() == f"{place.worker()}/work/src\n"


def test_an_early_end_is_told_with_its_last_lines(place: Place) -> None:
    launched = place.launch("sh", "-c", "echo one; echo two >&2; exit 3", watch=20)
    assert launched.state["exit_code"] == 3
    assert launched.log == "one\ntwo"


def test_a_launch_returns_before_the_command_ends(place: Place) -> None:
    launched = place.launch("sleep", "60", watch=1)
    assert launched.state["state"] == "running"


def test_nothing_deployed(place: Place) -> None:
    (place.here / "environment.sh").unlink()
    with pytest.raises(NoEnvironment, match="orch deploy --hosts gpu01"):
        place.launch("true")
    assert not (place.folder / "runs").exists()


def test_an_environment_that_is_gone(place: Place) -> None:
    (place.folder / "whole").unlink()
    with pytest.raises(NoEnvironment, match="is gone"):
        place.launch("true")


def test_code_that_is_not_there_yet(place: Place) -> None:
    with pytest.raises(NeedsBundle):
        place.launch("true", bundle="b2")
    assert not (place.folder / "runs").exists()


def test_the_same_id_twice_is_refused_and_the_first_is_untouched(place: Place) -> None:
    place.launch("sleep", "60")
    with pytest.raises(Busy, match="exists already"):
        place.launch("echo", "second")
    assert (place.worker() / "training.log").read_text() == ""


def test_a_launch_that_cannot_place_its_files_leaves_nothing(place: Place) -> None:
    (place.folder / "bundles" / "b1" / "src").rmdir()
    os.chmod(place.folder / "bundles" / "b1" / "data.txt", 0o000)
    (place.folder / "runs").mkdir()
    (place.folder / "runs" / (RUN + "1")).touch()
    with pytest.raises(HostError, match="could not be placed"):
        place.launch("true")
    assert not place.worker().exists()


def test_the_private_file_is_private_and_goes_when_nobody_reads_it(place: Place) -> None:
    mode = place.root / "mode"
    tool(place, "python3", f'echo no python here\nstat -c %a "$ORCH_WORKER_DIR/launch.json" > {mode}\nexit 5')
    with pytest.raises(HostError, match="supervisor did not start") as told:
        place.launch("true", env={"TOKEN": "hush-hush"})
    assert told.value.details == "no python here"
    assert mode.read_text() == "600\n"
    assert not (place.worker() / "launch.json").exists()


def test_somebody_who_looks_at_the_lock_keeps_no_run_from_starting(place: Place) -> None:
    looks = '(flock -s 9; sleep 1) 9<"$ORCH_WORKER_DIR/lock" &'
    tool(place, "nohup", f'{looks}\nsleep 0.3\nexec {shutil.which("nohup")} "$@"')
    assert place.launch("sleep", "60").state["state"] == "running"


def test_a_supervisor_that_needs_long_is_waited_for(place: Place) -> None:
    tool(place, "python3", f'case "$*" in *--person*) sleep 12 ;; esac\nexec {sys.executable} "$@"')
    assert place.launch("sleep", "60").state["state"] == "running"


def test_a_launch_that_was_given_up_never_begins(place: Place) -> None:
    place.launch("true", watch=20)
    line = [
        "python3",
        str(place.worker() / "supervise.py"),
        "--person",
        "a",
        "--run",
        "r",
        "--",
        "touch",
        "x",
    ]
    done = subprocess.run(
        [*line, "touch", "x"],
        cwd=place.root,
        env={**os.environ, "ORCH_WORKER_DIR": str(place.worker())},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"orch: this launch was given up\n")
    assert not (place.root / "x").exists()
