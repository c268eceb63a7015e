"""orch ps --prune on real files: the host is this machine, with records as launches leave them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from orchestrator.run import prune
from orchestrator.run.spec import RunSpec
from tests.cli.test_files import Lab, put

OLD, NEW, LIVES, MINE = (f"2026113{n}-0214-nightly-7f3{n}" for n in range(4))


def launched(lab: Lab, run: str, bundle: str, ended: float | None, project: str = "mnist") -> Path:
    place = lab.root / "ana" / project
    put(place / "bundles" / bundle / "train.py", "print(1)")
    (place / "bundles" / bundle).chmod(0o555)
    worker = place / "runs" / run / "gpu01"
    put(worker / "work" / "w.h5", "w" * 50_000)
    put(worker / "worker.json", "{}", int(time.time()))
    (worker / "lock").touch()
    put(
        worker / "state.json",
        json.dumps({"state": "running"} if not ended else {"state": "failed", "ended": ended}),
    )
    spec = RunSpec(run, ("python3",), ("gpu01",), "ana", project, bundle, name="nightly")
    put(worker.parent / "spec.json", spec.text())
    return worker


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(prune, "SPARED", 0)
    cwd = tmp_path / "project"
    cwd.mkdir()
    lines = ["gpu01", "[all:vars]", "ansible_connection=local", "person=ana", "project=mnist", "engine=venv"]
    (cwd / "hosts.ini").write_text("\n".join([*lines, f"root={tmp_path}/a root"]) + "\n")
    made = Lab(cwd, tmp_path / "a root")
    launched(made, OLD, "aaaa", time.time() - 40 * 86400)
    launched(made, NEW, "bbbb", time.time() - 86400)
    launched(made, MINE, "cccc", time.time() - 40 * 86400, "other")
    (made.root / "ana/mnist/runs/latest").symlink_to(OLD)
    return made


def left(lab: Lab) -> list[str]:
    place = lab.root / "ana"
    return sorted(p.name for kind in ("runs", "bundles") for p in place.glob(f"*/{kind}/[!.]*"))


def test_old_runs_go_with_the_code_that_only_they_need(lab: Lab) -> None:
    status, out, err = lab("ps", "--prune", "30d", "--yes")
    assert (status, out) == (0, "")
    assert err.splitlines()[-1].startswith("deleted: 1 run, 1 bundle, ")
    assert left(lab) == sorted([NEW, MINE, "bbbb", "cccc", "latest"])
    assert os.readlink(lab.root / "ana/mnist/runs/latest") == NEW
    said = (lab.root / "ana/mnist/audit.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in said] == [f"prune {OLD}", "prune aaaa"]
    assert not list((lab.root / "ana/mnist").glob("*/.gone-*"))


def test_a_dry_run_lists_and_deletes_nothing(lab: Lab) -> None:
    before = left(lab)
    status, out, err = lab("ps", "--prune", "30d", "--dry-run")
    assert status == 0
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["gpu01", "run", OLD],
        ["gpu01", "bundle", "aaaa"],
    ]
    assert err.startswith("can go: 1 run, 1 bundle, ")
    rows = json.loads(lab("ps", "--prune", "30d", "--dry-run", "--json")[1])["rows"]
    assert [(r["kind"], r["name"], r["deleted"], r["kept"]) for r in rows] == [
        ("run", OLD, False, None),
        ("bundle", "aaaa", False, None),
    ]
    assert rows[0]["size"] >= 50_000
    assert left(lab) == before


def test_without_a_terminal_it_asks_for_yes(lab: Lab) -> None:
    before = left(lab)
    status, _, err = lab("ps", "--prune", "30d")
    assert (status, err.splitlines()[-1]) == (
        2,
        "orch: a prune deletes runs for good, and there is no terminal to ask on. Add --yes.",
    )
    assert left(lab) == before


def test_what_lives_stays_and_so_does_its_code(lab: Lab) -> None:
    worker = launched(lab, LIVES, "aaaa", None)
    os.utime(worker / "worker.json", (1, 1))
    with (worker / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = prune.prune(*_machine(lab), [LIVES, OLD])
        assert [(f.kind, f.name, f.kept) for f in found] == [("run", LIVES, "it lives"), ("run", OLD, "")]
        assert {LIVES, "aaaa"} <= set(left(lab))


def _machine(lab: Lab):  # type: ignore[no-untyped-def]
    from tests.unit.here import Here

    return Here(lab.cwd), str(lab.root / "ana/mnist")


def test_code_that_has_just_come_stays(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "SPARED", 60)
    spared = "   (1 bundle that came within the hour: another time)"
    status, out, err = lab("ps", "--prune", "30d", "--dry-run")
    assert (status, len(out.splitlines())) == (0, 1)
    assert err.startswith("can go: 1 run, 0 bundles, ")
    assert err.endswith(f"{spared}\n")
    status, out, err = lab("ps", "--prune", "30d", "--yes", "--json")
    rows = {r["name"]: r for r in json.loads(out)["rows"]}
    assert (status, rows["aaaa"]["deleted"]) == (0, False)
    assert rows["aaaa"]["kept"] == "it came within the hour, and a run may be about to begin"
    assert err.splitlines()[-1].endswith(spared)
    assert "aaaa" in left(lab)
    assert OLD not in left(lab)


def test_code_of_runs_that_were_removed_by_hand_goes_too(lab: Lab) -> None:
    shutil.rmtree(lab.root / "ana/mnist/runs" / OLD)
    assert lab("ps", "--prune", "30d", "--yes")[0] == 0
    assert left(lab) == sorted([NEW, MINE, "bbbb", "cccc", "latest"])


def test_links_are_not_followed(lab: Lab, tmp_path: Path) -> None:
    outside = put_outside(tmp_path)
    worker = lab.root / "ana/mnist/runs" / OLD / "gpu01"
    (worker / "work" / "link").symlink_to(outside)
    (lab.root / "ana/mnist/bundles/dddd").symlink_to(outside)
    lab("ps", "--prune", "30d", "--yes")
    assert (outside / "data").read_text() == "mine"
    assert not worker.exists()
    shutil.rmtree(lab.root / "ana/mnist/runs" / NEW)
    (lab.root / "ana/mnist/runs" / NEW).symlink_to(outside)
    assert [f.name for f in prune.prune(*_machine(lab), [NEW]) if f.kind == "run"] == []
    assert (outside / "data").read_text() == "mine"


def put_outside(tmp_path: Path) -> Path:
    put(tmp_path / "outside" / "data", "mine")
    return tmp_path / "outside"


@pytest.mark.parametrize("words", [["--prune", "soon"], ["--prune", "30d", "-a"], ["--yes"]])
def test_what_makes_no_sense_is_one_line(lab: Lab, words: list[str]) -> None:
    status, _, err = lab("ps", *words)
    assert status == 2
    assert err.count("\n") == 1
