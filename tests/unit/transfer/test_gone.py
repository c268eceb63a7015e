"""A copy whose caller is gone: what was said last has nowhere to go (SIGPIPE), or stdin ends early."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.hosts.command import Script, quote
from orchestrator.render import render
from tests.unit.here import Here, unheard

from .trees import put, tree


def gone(machine: Here, script: str, sent: bytes, **values: object) -> int:
    """Run a script of files/ for `there/d` whose caller is gone when it has got `sent`."""
    into = quote(f"{machine.env['HOME']}/there/d")
    text = render(f"files/{script}.sh.j2", into=into, part=".orch-part-token", **values)
    return unheard(machine, text, sent)


def grow(machine: Here, sent: bytes) -> int:
    return gone(machine, "grow", sent, file="new", size=9, mode="644", mtime=1_700_000_000)


def test_what_came_of_a_large_file_stays_for_the_next_try(machine: Here, there: Path) -> None:
    part = put(there / ".orch-part-token/new", "came")
    assert grow(machine, b"") != 0
    assert part.read_text() == "came"
    assert list(there.iterdir()) == [part.parent]


def test_small_files_that_came_stay_for_the_next_try(machine: Here, there: Path, here: Path) -> None:
    put(here / "new/a", "came")
    archive = subprocess.run(["tar", "-C", here, "-c", "new"], capture_output=True, check=True).stdout
    assert gone(machine, "take", archive[:2000]) != 0
    assert tree(there) == {".orch-part-token/new/a": b"came"}
    put(here / "end", "")
    archive = subprocess.run(["tar", "-C", here, "-c", "new", "end"], capture_output=True, check=True).stdout
    gone(machine, "take", archive)
    assert tree(there) == {".orch-part-token/new/a": b"came"}


@pytest.mark.parametrize("folder", [True, False])
def test_what_is_whole_is_put_in_its_place_and_written_down(machine: Here, there: Path, folder: bool) -> None:
    put(there / ".orch-part-token/new" / ("sub/a" if folder else ""), "new")
    put(there / "project/owner.json", "")
    audit = quote(str(there / "project"))
    gone(machine, "place", b"", audit=audit, by="ana@laptop")
    assert (there / ("d/sub/a" if folder else "d")).read_text() == "new"
    assert sorted(p.name for p in there.iterdir()) == ["d", "project"]
    assert (there / "project/audit.log").read_text().endswith(f" ana@laptop cp {there}/d\n")


def test_what_the_script_of_one_that_was_killed_places_is_no_failure(machine: Here, there: Path) -> None:
    """It may do so while the next copy asks what is there: then that asks again."""
    (there / ".orch-part-token").mkdir()
    put(there / "d", "placed")
    into = quote(str(there / "d"))
    text = render("files/place.sh.j2", into=into, part=".orch-part-token", audit="", by="ana@laptop")
    said = machine.run(Script("place", text))
    assert (said.status, said.text) == (1, "failed the stream ended early\n")
    assert (there / "d").read_text() == "placed"
