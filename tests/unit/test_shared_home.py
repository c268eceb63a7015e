"""One home of several hosts: what is of one of them, and what they share; by the real scripts."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.container.engine import Environment
from orchestrator.container.turn import LOCK
from orchestrator.render import render
from tests.unit.here import MACHINE, record, venv_in
from tests.unit.run_place import Place, place
from tests.unit.test_facts_place import look

__all__ = ["place"]  # a fixture


def another(environment: Environment, machine: str = "gpu02") -> Environment:
    return replace(environment, machine=machine)


def test_what_another_host_has_deployed_is_no_environment_of_this_one(tmp_path: Path) -> None:
    record(another(venv_in(tmp_path)))
    found = look(tmp_path, tmp_path)
    assert (found.environment, found.others) == (None, ("gpu02",))
    assert (found.machine, found.here) == (MACHINE, f"{tmp_path}/hosts/{MACHINE}")
    record(venv_in(tmp_path))
    found = look(tmp_path, tmp_path)
    assert found.environment == venv_in(tmp_path).text()
    assert found.others == ("gpu02",)


def test_a_run_is_told_by_its_own_host_alone(place: Place) -> None:
    place.launch("sleep", "60")
    worker = place.worker() / "worker.json"
    assert [r.spec.run for r in place.records()] == [place.runs[0]]
    ours = worker.read_text()
    assert f'"machine": "{MACHINE}"' in ours
    worker.write_text(ours.replace(f'"machine": "{MACHINE}"', '"machine": "gpu02"'))
    assert place.records() == ()
    worker.write_text(ours)


def down(folder: Path, **values: object) -> str:
    """The script that takes away what is deployed, with its turn."""
    (folder / "hosts" / MACHINE / LOCK).write_text("t0ken 1796054273 b1 down by ana@laptop\n")
    return render("container/down.sh.j2", place=str(folder), by="ana", turn=LOCK, token="t0ken", **values)


def finish(folder: Path, keep: str) -> list[str]:
    """End the deploy of the venv `keep`; return the venvs that are left."""
    environment = replace(venv_in(folder), whole=f"{folder}/venv/{keep}/whole")
    here = folder / "hosts" / MACHINE
    here.mkdir(parents=True, exist_ok=True)
    (folder / "hosts" / MACHINE).mkdir(parents=True, exist_ok=True)
    (folder / "hosts" / MACHINE / "enter.part").touch()
    text = render(
        "container/direct_finish.sh.j2",
        place=str(folder),
        environment_sh="",
        environment_json=environment.text(),
        owner_json=environment.owner(),
        keep=f"{folder}/venv/{keep}",
        what=keep,
        by="ana@laptop",
        turn=LOCK,
        token="t0ken",
    )
    (here / LOCK).write_text("t0ken 1796054273 b1 deploy by ana@laptop\n")
    subprocess.run(["sh", "-c", text], check=True)
    return sorted(p.name for p in (folder / "venv").iterdir())


def installed(folder: Path, *names: str) -> None:
    for name in names:
        (folder / "venv" / name).mkdir(parents=True)
        os.utime(folder / "venv" / name, (1, 1))


def test_a_venv_goes_when_no_host_uses_it(tmp_path: Path) -> None:
    installed(tmp_path, "old", "new", "theirs")
    record(replace(another(venv_in(tmp_path)), whole=f"{tmp_path}/venv/theirs/whole"))
    assert finish(tmp_path, "new") == ["new", "theirs"]


@pytest.mark.parametrize(
    ("machine", "state", "left"),
    [
        ("gpu02", "{}", ["new", "old"]),
        ("gpu02", '{"ended": 1.5}', ["new"]),
        (MACHINE, "{}", ["new"]),  # whether ours live is known by their locks
    ],
)
def test_a_venv_stays_for_a_run_of_another_host(
    tmp_path: Path, machine: str, state: str, left: list[str]
) -> None:
    installed(tmp_path, "old", "new")
    record(replace(another(venv_in(tmp_path)), whole=f"{tmp_path}/venv/new/whole"))
    worker = tmp_path / "runs" / "one" / machine
    worker.mkdir(parents=True)
    on = {"machine": machine, "whole": f"{tmp_path}/venv/old/whole"}
    (worker / "worker.json").write_text(json.dumps({"environment": on}))
    (worker / "state.json").write_text(state)
    (worker / "lock").touch()
    assert finish(tmp_path, "new") == left


def test_a_venv_that_another_host_may_just_be_installing_stays(tmp_path: Path) -> None:
    installed(tmp_path, "new", "coming")
    os.utime(tmp_path / "venv" / "coming")
    (tmp_path / "hosts" / "gpu02").mkdir(parents=True)
    assert finish(tmp_path, "new") == ["coming", "new"]


def test_down_leaves_what_another_host_uses(tmp_path: Path) -> None:
    installed(tmp_path, "both")
    theirs = record(another(venv_in(tmp_path)))
    ours = record(venv_in(tmp_path))
    for folder in (theirs, ours):
        (folder / "container" / "d1").mkdir(parents=True)
    text = down(tmp_path, patience=9, engine=("false",), containers=())
    subprocess.run(["sh", "-c", text], check=True)
    assert not (ours / "container").exists()
    assert (theirs / "container" / "d1").exists()
    assert (tmp_path / "venv" / "both").exists()
    (theirs / "environment.json").unlink()
    subprocess.run(["sh", "-c", text], check=True)
    assert not (tmp_path / "venv").exists()


def test_a_container_that_can_not_be_killed_holds_down_for_a_limited_time(tmp_path: Path) -> None:
    record(venv_in(tmp_path))
    engine = ("sh", "-c", "exec sleep 600", "sh")
    text = down(tmp_path, patience=1, engine=engine, containers=("c1",))
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "its container does not end in 1 s" in done.stderr
    assert "reboot of the host" in done.stderr
    assert not (tmp_path / "audit.log").exists()


def test_whose_a_folder_is_outlives_what_was_deployed(tmp_path: Path) -> None:
    installed(tmp_path, "new")
    finish(tmp_path, "new")
    assert json.loads(look(tmp_path, tmp_path).owned or "") == {
        "person": "ana",
        "project": "p",
        "folder": "f",
    }
    (tmp_path / "hosts" / MACHINE / "environment.json").unlink()
    assert look(tmp_path, tmp_path).owned


def recording(folder: Path, machine: str) -> subprocess.Popen[bytes]:
    """A deploy of a host of this name, ended many times over."""
    environment = replace(venv_in(folder), machine=machine)
    text = render(
        "container/record.sh.j2",
        environment_sh="",
        environment_json=environment.text(),
        owner_json=environment.owner(),
    )
    lines = ("for try in $(seq 60); do", text, "done")
    start = f"place='{folder}'; machine={machine}; here=$place/hosts/$machine"
    return subprocess.Popen(["sh", "-c", "\n".join((start, *lines))])


def test_two_hosts_write_whose_a_shared_project_is_at_the_same_time(tmp_path: Path) -> None:
    writers = [recording(tmp_path, machine) for machine in ("gpu01", "gpu02", "gpu03")]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hosts", "owner.json"]
    assert (tmp_path / "owner.json").read_text().strip() == venv_in(tmp_path).owner()
