"""What a launch writes down of its environment, and one name for one live run, by a real sh."""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import Busy
from orchestrator.run.launch import launch
from orchestrator.run.spec import RunSpec
from orchestrator.run.stop import stop
from tests.unit.run_place import Place, place

__all__ = ["place"]  # a fixture

NAME = f"n{secrets.token_hex(4)}.ly"
"""Of this process alone: a stop sweeps the whole machine for its run, and tests run side by side."""


def named(number: int) -> str:
    """An id as a run of that name has it."""
    return f"20261130-0214-{NAME.replace('.', '-')}-{number:04x}"


def test_a_second_run_of_a_live_name_is_refused_until_the_first_has_ended(place: Place) -> None:
    place.launch("sleep", "60", run=named(1), name=NAME)
    with pytest.raises(Busy, match=f"run {named(1)} lives already under the name {NAME}") as refused:
        place.launch("sleep", "60", run=named(2), name=NAME)
    assert "--again" in str(refused.value)
    assert not (place.folder / "runs" / named(2)).exists()
    place.launch(
        "sleep", "60", run=named(3), name=NAME.replace(".", "-")
    )  # the same in ids, and another name
    (first,) = place.records(named(1))
    stop(place.machine, first, by="test", grace=0)
    place.launch("true", run=named(4), name=NAME, watch=20)


def test_again_starts_another_beside_it(place: Place) -> None:
    place.launch("sleep", "60", run=named(1), name=NAME)
    order = replace(place.order("sleep", "60", run=named(2), name=NAME), again=True)
    assert launch(place.machine, order).state["state"] == "running"


def test_of_two_launches_at_once_one_is_refused(place: Place) -> None:
    answers: list[str] = []

    def begin(number: int) -> None:
        try:
            place.launch("sleep", "60", run=named(number), name=NAME)
            answers.append("launched")
        except Busy:
            answers.append("refused")

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["launched", "refused", "refused", "refused"]


def test_the_workers_of_one_run_share_its_name(place: Place) -> None:
    place.launch("sleep", "60", run=named(1), name=NAME)
    place.host = replace(place.host, name="gpu02")
    place.machine.host = place.host
    place.launch("sleep", "60", run=named(1), name=NAME)
    assert {r.host for r in place.records()} == {"gpu01", "gpu02"}


def test_a_spec_has_what_the_host_adds(place: Place) -> None:
    launched = place.launch("true", watch=20)
    spec = json.loads((place.folder / "runs" / "latest" / "spec.json").read_text())
    assert RunSpec.parse(spec) == launched.spec
    assert (launched.spec.orch_env, launched.spec.image, launched.spec.packages) == ("e", {}, ())


def test_packages_that_were_installed_since_the_deploy_are_written_down(place: Place, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    site = venv / "site"
    for name in ("orch_kept-1.23.5.dist-info", "My_Tool-2.0.dist-info", "orch.old-1-py3.9.egg-info"):
        (site / name).mkdir(parents=True)
    (venv / "packages.txt").write_text("Orch.Kept==1.23.5\norch-old==1\nmy-tool==1.0\n")
    enter = place.folder / "enter"
    enter.write_text(
        f"VIRTUAL_ENV='{venv}' PYTHONPATH='{site}'; export VIRTUAL_ENV PYTHONPATH\n" + enter.read_text()
    )
    packages = place.launch("sleep", "60", note="n").spec.packages
    assert "my-tool==2.0" in packages
    assert not [p for p in packages if p.startswith("orch-")]
    spec = json.loads((place.folder / "runs" / "latest" / "spec.json").read_text())
    assert (tuple(spec["packages"]), spec["note"]) == (packages, "n")


def test_a_diff_is_written_down_byte_for_byte(place: Place) -> None:
    diff = "-it's\n+\udcff \\ $HOME `x` é\r\n"
    launch(place.machine, replace(place.order("true"), diff=diff))
    written = (place.folder / "runs" / "latest" / "code.diff").read_bytes()
    assert written == diff.encode("utf-8", "surrogateescape")
