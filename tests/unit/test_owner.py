"""A launch goes into the caller's own environment only, also where two names have one slug."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.container.identity import Identity, Person, Project
from orchestrator.errors import Refused
from orchestrator.run.launch import launch
from tests.unit.run_place import Place, place

__all__ = ["place"]  # a fixture

HERE = socket.gethostname()


def launched(place: Place, recorded: str, identity: Identity) -> str:
    """Launch as `identity` where `recorded` (`folder` of what is deployed) is; return the state."""
    file = place.here / "environment.sh"
    text = file.read_text().replace("orch_folder=f\n", f"orch_folder='{recorded}'\n")
    assert recorded in text
    file.write_text(text)
    json = place.here / "environment.json"
    json.write_text(json.read_text().replace('"folder": "f"', f'"folder": "{recorded}"'))
    order = replace(place.order("sleep", "60"), identity=identity)
    return str(launch(place.machine, order).state["state"])


def ana(folder: Path, person: str = "ana", project: str = "p") -> Identity:
    return Identity(Person(person, "ana"), Project(project, "p", folder))


def test_another_person_or_project_of_the_same_slug_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'p' of 'ana', and would also be that of project 'p' of 'Ana!'"):
        launched(place, f"{HERE}:{tmp_path}", ana(tmp_path, person="Ana!"))
    assert not (place.folder / "runs").exists()


def test_another_folder_of_this_machine_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"'p' is {tmp_path}, and would also be /elsewhere"):
        launched(place, f"{HERE}:{tmp_path}", ana(Path("/elsewhere")))
    assert not (place.folder / "runs").exists()


@pytest.mark.parametrize("recorded", ["laptop:/src/p", f"{HERE}:/gone/p"], ids=["another-machine", "moved"])
def test_a_folder_on_another_machine_or_one_that_moved_is_the_same_project(
    place: Place, tmp_path: Path, recorded: str
) -> None:
    assert launched(place, recorded, ana(tmp_path)) == "running"


def test_the_folder_itself(place: Place, tmp_path: Path) -> None:
    assert launched(place, f"{HERE}:{tmp_path}", ana(tmp_path)) == "running"
