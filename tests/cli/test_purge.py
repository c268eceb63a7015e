"""orch down --purge on real files: the host is this machine, with a project as a down leaves it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from orchestrator.container.purge import purge, survey_purge
from orchestrator.errors import Refused
from tests.cli.test_files import Lab, put
from tests.cli.test_prune import launched
from tests.unit.here import MACHINE, Here


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    cwd = tmp_path / "project"
    cwd.mkdir()
    lines = ["gpu01", "[all:vars]", "ansible_connection=local", "person=ana", "project=mnist", "engine=venv"]
    (cwd / "hosts.ini").write_text("\n".join([*lines, f"root={tmp_path}/root"]) + "\n")
    made = Lab(cwd, tmp_path / "root")
    launched(made, "20261130-0214-nightly-7f3a", "aaaa", time.time() - 5)
    put(tmp_path / "outside" / "data", "mine")
    (made.root / "ana/mnist/home").mkdir()
    (made.root / "ana/mnist/home/link").symlink_to(tmp_path / "outside")
    put(made.root / "ana/other/runs/x", "stays")
    return made


def test_all_of_the_project_goes_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    status, out, err = lab("down", "--purge", "--yes", "gpu01")
    assert (status, out) == (0, f"gpu01   purged; {lab.root}/ana/audit.log has a line of it\n")
    assert [line.split()[0] for line in err.splitlines()] == ["gpu01", "runs", "bundles", "home", "whole"]
    assert not (lab.root / "ana/mnist").exists()
    assert sorted(p.name for p in (lab.root / "ana").iterdir()) == ["audit.log", "other"]
    assert (lab.root / "ana/audit.log").read_text().endswith(" purge mnist\n")
    assert (tmp_path / "outside/data").read_text() == "mine"


def test_without_a_terminal_it_asks_for_yes(lab: Lab) -> None:
    status, _, err = lab("down", "--purge", "gpu01")
    assert status == 2
    assert err.splitlines()[-1].startswith("orch: a purge deletes ")
    assert (lab.root / "ana/mnist/runs").is_dir()
    assert lab("down", "--purge", "--replace", "gpu01")[0] == 2


def machine(lab: Lab) -> tuple[Here, str]:
    return Here(lab.cwd), str(lab.root / "ana/mnist")


def test_a_run_that_lives_keeps_it(lab: Lab) -> None:
    worker = launched(lab, "20261130-0214-nightly-7f3b", "aaaa", None)
    with (worker / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for ask in (survey_purge, purge):
            with pytest.raises(Refused, match=r"run 20261130-0214-nightly-7f3b lives\. Nothing was deleted"):
                ask(*machine(lab))
    assert worker.exists()


def test_what_is_deployed_keeps_it(lab: Lab) -> None:
    put(lab.root / "ana/mnist/hosts" / MACHINE / "environment.json", "{}")
    with pytest.raises(Refused, match=f"it is deployed on {MACHINE}"):
        purge(*machine(lab))


def test_a_folder_that_is_no_project_stays(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is no project of orch"):
        survey_purge(Here(lab.cwd), str(tmp_path / "outside"))


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root")
def test_what_is_mounted_in_it_keeps_it(lab: Lab) -> None:
    place = lab.root / "ana/mnist/home"
    os.system(f"mount -t tmpfs orch-test {place}")
    try:
        with pytest.raises(Refused, match="home is mounted in it"):
            purge(*machine(lab))
    finally:
        os.system(f"umount {place}")
