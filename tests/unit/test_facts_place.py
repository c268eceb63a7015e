"""What a project's folder holds: the real script on a real folder."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.facts.place import PLACE, LiveRun, PlaceReport, parse
from orchestrator.facts.question import question
from tests.unit.here import MACHINE

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def look(
    place: Path, home: Path, volumes: list[tuple[str, str]] | None = None, path: str = "/usr/bin:/bin"
) -> PlaceReport:
    asked = question(PLACE, values={"place": shlex.quote(str(place)), "volumes": volumes or []})
    done = subprocess.run(
        ["sh", "-c", asked.script.text],
        check=True,
        capture_output=True,
        text=True,
        env={"HOME": str(home), "PATH": path, "LC_ALL": "C"},
    )
    return parse(asked.sections(done.stdout)["place"])


def run(place: Path, name: str, boot: str = BOOT, **state: object) -> Path:
    worker = place / "runs" / name / "gpu01"
    worker.mkdir(parents=True)
    (worker / "lock").touch()
    (worker / "state.json").write_text(json.dumps({"boot_id": boot, **state}) + "\n")
    return worker / "lock"


def test_nothing_is_there(tmp_path: Path) -> None:
    found = look(tmp_path / "p", tmp_path)
    assert (found.exists, found.environment, found.live) == (False, None, ())
    assert found.path == str(tmp_path / "p")


def test_keys_volumes_and_environment(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "authorized_keys").write_text("# mine\nssh-ed25519 AAAA ana@laptop\n\n")
    place = tmp_path / "p"
    (place / "hosts" / MACHINE).mkdir(parents=True)
    (place / "hosts" / MACHINE / "environment.json").write_text('{"version": 1}\n')
    (tmp_path / "da ta").mkdir()
    volumes = [("~/da ta", "\"$HOME\"'/da ta'"), ("/no/such", "/no/such")]
    found = look(place, tmp_path, volumes)
    assert found.exists
    assert found.environment == '{"version": 1}'
    assert found.account_keys == ("ssh-ed25519 AAAA ana@laptop",)
    assert [(s.path, s.kind) for s in found.sources] == [
        (str(tmp_path / "da ta"), "folder"),
        ("/no/such", "missing"),
    ]


@pytest.mark.skipif(not shutil.which("flock"), reason="no flock program here")
def test_a_run_lives_while_its_lock_is_held(tmp_path: Path) -> None:
    held = run(tmp_path, "one", container="c0ffee")
    run(tmp_path, "two", container="c0ffee")
    other_boot = run(tmp_path, "three", boot="another machine's", container="c0ffee")
    (tmp_path / "runs" / "latest").symlink_to("one")
    holders = [
        subprocess.Popen(["flock", "-n", str(lock), "sh", "-c", "echo ready; cat"], stdin=-1, stdout=-1)
        for lock in (held, other_boot)
    ]
    try:
        for holder in holders:
            assert holder.stdout
            assert holder.stdout.readline() == b"ready\n"
        assert look(tmp_path, tmp_path).live == (LiveRun("one", "c0ffee"),)
    finally:
        for holder in holders:
            holder.communicate()
    assert look(tmp_path, tmp_path).live == ()


@pytest.mark.timeout(20)
def test_a_fifo_or_a_device_in_the_place_of_a_record_is_none(tmp_path: Path) -> None:
    place = tmp_path / "mnist"
    here = place / "hosts" / MACHINE
    (here / "ssh").mkdir(parents=True)
    (tmp_path / ".ssh").mkdir()
    os.mkfifo(place / "owner.json")
    os.mkfifo(here / "environment.json")
    os.mkfifo(tmp_path / ".ssh" / "authorized_keys")
    (here / "ssh" / "authorized_keys").symlink_to("/dev/zero")
    report = look(place, tmp_path)
    assert (report.environment, report.account_keys, report.placed_keys) == (None, (), ())
