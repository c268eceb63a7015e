"""orch ls, fetch and cp on real files: the host is this machine, with records as a launch leaves them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli.app import App
from orchestrator.cli.main import run as run_line
from orchestrator.run.spec import RunSpec

RUN = "20261130-0214-nightly-7f3a"


@dataclass
class Lab:
    """A project here, and a run of it on this machine under one host name or two."""

    cwd: Path
    root: Path

    def work(self, host: str = "gpu01") -> Path:
        return self.root / "ana/mnist/runs" / RUN / host / "work"

    def __call__(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        environ = {"HOME": str(self.cwd), "XDG_CACHE_HOME": str(self.cwd / "cache")}
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run_line(list(words), app=App(environ=environ, cwd=self.cwd))
        return status, out.getvalue(), err.getvalue()


def put(place: Path, content: str, mtime: int = 1_700_000_000) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    os.utime(place, (mtime, mtime))


def launched(lab: Lab, *hosts: str) -> None:
    bundle = lab.root / "ana/mnist/bundles/9f3c"
    put(bundle / "train.py", "print(1)")
    spec = RunSpec(RUN, ("python3", "train.py"), hosts, "ana", "mnist", "9f3c", name="nightly")
    for host in hosts:
        shutil.copytree(bundle, lab.work(host))
        put(lab.work(host) / "checkpoints/1.h5", f"weights of {host}")
        put(lab.work(host) / "out.txt", "x" * 2000)
        put(lab.work(host).parent / "worker.json", "{}")
        put(lab.work(host).parent / "state.json", json.dumps({"state": "succeeded", "ended": 1.0}))
    put(lab.work(hosts[0]).parents[1] / "spec.json", spec.text())


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    cwd = tmp_path / "project"
    cwd.mkdir()
    lines = ["gpu01", "[all:vars]", "ansible_connection=local", "person=ana", "project=mnist", "engine=venv"]
    (cwd / "hosts.ini").write_text("\n".join([*lines, f"root={tmp_path}/root"]) + "\n")
    monkeypatch.setenv("TZ", "UTC")
    made = Lab(cwd, tmp_path / "root")
    launched(made, "gpu01")
    return made


def test_ls_says_which_run_where_none_is_named(lab: Lab) -> None:
    assert lab("ls")[2] == f"run     {RUN}\n"
    assert lab("ls", "nightly")[2] == ""
    assert lab("ls", "--json")[2] == ""


def test_ls_shows_sizes_and_times(lab: Lab) -> None:
    status, out, _ = lab("ls", "nightly")
    assert status == 0
    assert out.splitlines()[-1] == "     8 B  2023-11-14 22:13  train.py"
    assert "  2.0 kB  2023-11-14 22:13  out.txt" in out.splitlines()
    assert out.splitlines()[0].endswith("  checkpoints/")
    assert lab("ls", "nightly", "checkpoints")[1] == "    16 B  2023-11-14 22:13  1.h5\n"
    assert lab("ls", "nightly", "checkpoints/1.h5")[1] == "    16 B  2023-11-14 22:13  1.h5\n"
    rows = json.loads(lab("ls", "--json", "nightly", "checkpoints")[1])["rows"]
    assert rows == [{"host": "gpu01", "name": "1.h5", "kind": "file", "size": 16, "mtime": 1_700_000_000}]


def test_work_that_another_run_took_over_is_looked_for_there(lab: Lab) -> None:
    put(lab.work().parents[1] / "continued_by", "20261130-0514-nightly-0001\ngpu01\n")
    shutil.rmtree(lab.work())
    for verb in ("ls", "fetch"):
        status, out, err = lab(verb, "nightly")
        assert (status, out) == (1, "")
        there = "20261130-0514-nightly-0001"
        assert err.splitlines()[0] == f"gpu01   its work went on in {there}: orch {verb} {there}"


def test_ls_of_what_is_not_there(lab: Lab) -> None:
    status, out, err = lab("ls", "nightly", "nothing")
    assert (status, out) == (1, "")
    assert err == f"orch: gpu01: {lab.work()}/nothing is not there\n"


def test_names_that_are_no_text_take_one_line(lab: Lab) -> None:
    (lab.work() / os.fsdecode(b"caf\xe9\n\x1b[31m")).write_text("")
    assert "caf\\xe9\\n\\x1b[31m" in lab("ls", "nightly")[1]


def test_fetch_brings_what_the_run_wrote(lab: Lab) -> None:
    status, out, err = lab("fetch", "nightly")
    folder = lab.cwd / RUN
    assert (status, out) == (0, f"{folder}\n")
    assert err.splitlines() == ["gpu01   2 files, 2.0 kB", "    2.0 kB  out.txt", "      16 B  checkpoints/"]
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) == [
        ".gitignore",
        ".orch-fetched",
        "checkpoints",
        "checkpoints/1.h5",
        "out.txt",
    ]
    assert lab("fetch", "nightly")[2] == "gpu01   0 files, 0 B (2 here already)\n"


def test_what_is_of_one_size_is_listed_by_name(lab: Lab) -> None:
    for number in (3, 1, 2):
        put(lab.work() / f"checkpoints/{number}.h5", "x" * 20)
    listed = lab("fetch", "nightly", "checkpoints")[2].splitlines()
    assert [line.split()[-1] for line in listed[1:]] == ["1.h5", "2.h5", "3.h5"]


def test_a_dry_run_of_fetch_lists_and_brings_nothing(lab: Lab) -> None:
    status, out, err = lab("fetch", "nightly", "--dry-run")
    assert (status, err) == (0, "gpu01   2 files, 2.0 kB would come\n")
    assert sorted(out.splitlines()) == ["    16 B  checkpoints/1.h5", "  2.0 kB  out.txt"]
    assert not (lab.cwd / RUN).exists()


def test_a_fetch_that_fails_half_way_is_no_code(lab: Lab) -> None:
    (lab.work() / "out.txt").unlink()
    os.mkfifo(lab.work() / "out.txt")
    (lab.cwd / RUN).mkdir()
    (lab.cwd / RUN / "checkpoints").write_text("in the way")
    status, out, err = lab("fetch", "nightly", "--to", "results/deep")
    assert (status, out) == (1, f"{lab.cwd}/results/deep\n")
    assert err.splitlines()[-1] == "gpu01   not fetched: out.txt (neither file nor folder)"
    status, _, err = lab("fetch", "nightly")
    assert (status, err.splitlines()[-1]) == (
        1,
        f"orch: {lab.cwd}/{RUN}/checkpoints/1.h5 can't be written: file exists",
    )
    assert (lab.cwd / RUN / ".gitignore").exists()


def test_a_fetch_to_what_is_no_folder_is_one_line(lab: Lab) -> None:
    (lab.cwd / "results").write_text("a file")
    status, _, err = lab("fetch", "nightly", "--to", "results/deep")
    assert (status, err.splitlines()[-1]) == (
        1,
        f"orch: {lab.cwd}/results/deep can't be written: not a directory",
    )


def test_a_large_fetch_asks_a_person_at_a_terminal(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("orchestrator.cli.fetch.ASKED_ABOVE", 100)
    monkeypatch.setattr(App, "interactive", staticmethod(lambda: True))
    monkeypatch.setattr("click.confirm", lambda *words, **how: asked.append(str(words)))
    status, out, err = lab("fetch", "nightly")
    assert (status, out, len(asked)) == (1, "", 1)
    assert err.endswith("orch: nothing was done: you said no\n")
    assert not (lab.cwd / RUN).exists()
    assert lab("fetch", "nightly", "--yes")[0] == 0
    assert len(asked) == 1


def test_a_run_that_wrote_nothing_says_so(lab: Lab) -> None:
    shutil.rmtree(lab.work() / "checkpoints")
    (lab.work() / "out.txt").unlink()
    told = f"gpu01   the run wrote no files (its log: orch tail {RUN})\n"
    assert lab("fetch", "nightly") == (0, "", told)


def test_a_fetched_run_is_no_code(lab: Lab) -> None:
    from orchestrator.run.code.bundle import collect

    (lab.cwd / "train.py").touch()
    lab("fetch", "nightly")
    lab("fetch", "nightly", "--to", "results")
    assert (lab.cwd / "results" / "out.txt").exists()
    assert [e.path for e in collect(lab.cwd, cache=lab.cwd.parent / "c").entries] == ["train.py"]


def test_fetch_of_a_path_to_a_folder(lab: Lab) -> None:
    assert lab("fetch", "nightly", "checkpoints", "--to", "results")[0] == 0
    assert (lab.cwd / "results/checkpoints/1.h5").read_text() == "weights of gpu01"
    assert lab("fetch", "nightly", "train.py", "--to", "results")[0] == 0
    assert (lab.cwd / "results/train.py").is_file()
    status, _, err = lab("fetch", "nightly", "../../../x")
    assert (status, err.startswith("orch: ../../../x is not in the run's work folder")) == (2, True)


def test_what_is_newer_here_stays_and_says_so(lab: Lab) -> None:
    put(lab.cwd / RUN / "out.txt", "mine", 1_800_000_000)
    status, _, err = lab("fetch", "nightly")
    assert status == 1
    kept = f"gpu01   kept: {lab.cwd / RUN}/out.txt (newer here; --overwrite takes the other)"
    assert err.splitlines()[-1] == kept
    assert (lab.cwd / RUN / "out.txt").read_text() == "mine"
    assert lab("fetch", "nightly", "--overwrite")[0] == 0
    assert (lab.cwd / RUN / "out.txt").read_text() == "x" * 2000


def test_several_workers_have_a_folder_each(lab: Lab) -> None:
    shutil.rmtree(lab.root)
    with (lab.cwd / "hosts.ini").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write("gpu02 root=" + str(lab.root.parent / "root2") + "\n" + text)
    launched(lab, "gpu01")
    launched(Lab(lab.cwd, lab.root.parent / "root2"), "gpu02")
    status, out, _ = lab("ls", "nightly", "checkpoints")
    assert (status, out) == (
        0,
        "gpu02 |     16 B  2023-11-14 22:13  1.h5\ngpu01 |     16 B  2023-11-14 22:13  1.h5\n",
    )
    assert lab("fetch", "nightly", "--to", "r")[0] == 0
    for host in ("gpu01", "gpu02"):
        assert (lab.cwd / "r" / host / "checkpoints/1.h5").read_text() == f"weights of {host}"
    assert lab("cp", "nightly/gpu02:checkpoints/1.h5", ".")[0] == 0
    assert (lab.cwd / "1.h5").read_text() == "weights of gpu02"
    status, _, err = lab("cp", "nightly:checkpoints/1.h5", ".")
    assert (status, err.endswith("has workers on gpu02, gpu01. Name one: nightly/gpu02\n")) == (2, True)


def test_cp_from_a_run_and_from_a_host(lab: Lab) -> None:
    assert lab("cp", "nightly:checkpoints/1.h5", ".")[0] == 0
    assert (lab.cwd / "1.h5").read_text() == "weights of gpu01"
    assert lab("cp", f"gpu01:{lab.work()}/checkpoints", "best")[0] == 0
    assert (lab.cwd / "best/1.h5").read_text() == "weights of gpu01"
    assert lab("cp", f"{RUN}:", "all/")[0] == 0
    assert (lab.cwd / "all/work/train.py").is_file()
    status, _, err = lab("cp", "nightly:out.txt", "no/such/x")
    assert (status, err) == (2, f"orch: there is no folder {lab.cwd}/no/such\n")


def test_cp_to_a_run_and_to_a_host(lab: Lab, tmp_path: Path) -> None:
    put(lab.cwd / "data/a.npz", "1")
    status, _, err = lab("cp", "data", f"gpu01:{tmp_path}/datasets")
    assert (status, err) == (0, f"gpu01   1 file, 1 B sent to {tmp_path}/datasets\n")
    assert (tmp_path / "datasets/a.npz").read_text() == "1"
    assert lab("cp", "data/a.npz", "nightly:checkpoints")[0] == 0
    assert (lab.work() / "checkpoints/a.npz").read_text() == "1"
    said = (lab.root / "ana/mnist/audit.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in said] == [
        f"cp {tmp_path}/datasets",
        f"cp {lab.work()}/checkpoints/a.npz",
    ]


def test_cp_needs_one_end_here_and_one_there(lab: Lab) -> None:
    status, _, err = lab("cp", "a", "b")
    assert (status, err.startswith("orch: neither of the two is on a host")) == (2, True)
    status, _, err = lab("cp", "gpu01:a", "nightly:b")
    assert (status, err.startswith("orch: one of the two must be here")) == (2, True)
    status, _, err = lab("cp", "./a:b", "gpu01:/tmp/x")  # a file here with a colon in its name
    assert (status, err) == (2, f"orch: {lab.cwd}/a:b: no such file or directory\n")
