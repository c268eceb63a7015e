"""orch schedule on a crontab that is a file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from orchestrator.schedule.entry import program
from tests.cli.calling import Called, call

FOREIGN = "# mine\nMAILTO=ana\n*/5 * * * *\t/usr/bin/true   # 50\\%"


@pytest.fixture
def table(tmp_path, monkeypatch) -> Path:
    """A crontab program that keeps its table in a file, as Debian's does in its spool."""
    path = tmp_path / "table"
    path.write_text(FOREIGN)
    fake = tmp_path / "bin/crontab"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nif [ "$1" = -l ]; then cat {path}; else cat >{path}; fi\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "hosts.ini").write_text("gpu[01:02]\n[big]\nbox secret=WANDB_API_KEY\n")
    return path


def added(tmp_path: Path, *words: str) -> Called:
    return call(tmp_path, "schedule", "add", "nightly", "--cron", "30 2 * * *", *words)


def test_an_entry_is_a_marked_block_and_foreign_lines_stay(table, tmp_path):
    done = added(tmp_path, "--hosts", "gpu01", "--gpus", "2", "--", "python3", "train.py", "--name=50%", "-x")
    assert done.status == 0
    assert done.out == (
        "added   nightly   30 2 * * *   "
        "--name nightly --hosts gpu01 --gpus 2 -- python3 train.py --name=50% -x\n"
    )
    assert "next:   orch schedule run nightly" in done.err
    orch = shlex.join(program())
    assert table.read_text() == (
        f"{FOREIGN}\n# BEGIN orch nightly\n"
        f"30 2 * * * cd {tmp_path} && XDG_CONFIG_HOME={tmp_path}/config XDG_CACHE_HOME={tmp_path}/cache "
        f"ORCH_INVENTORY={tmp_path}/hosts.ini {orch} schedule run nightly "
        "--name nightly --hosts gpu01 --gpus 2 -- python3 train.py --name=50\\% -x\n"
        "# END orch nightly\n"
    )
    assert call(tmp_path, "schedule", "remove", "nightly").out == "removed nightly\n"
    assert table.read_text() == f"{FOREIGN}\n"


def test_the_only_host_and_ones_own_name_are_written_down(table, tmp_path):
    (tmp_path / "hosts.ini").write_text("box\n")
    added(tmp_path, "--name", "mine", "--", "true")
    assert "schedule run nightly --hosts box --name mine -- true" in table.read_text()


def test_an_inventory_named_on_the_line_stays_the_only_one(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.ini").write_text("elsewhere\n")
    added(tmp_path, "--inventory", "other.ini", "--", "true")
    assert "ORCH_INVENTORY" not in table.read_text()
    assert "--hosts elsewhere --inventory other.ini -- true" in table.read_text()


@pytest.mark.parametrize(
    ("words", "complaint", "code"),
    [
        (("--cron", "61 2 * * *", "--hosts", "gpu01"), "minute '61' is not in 0-59", 2),
        (("--hosts", "gpu07"), "no host gpu07", 2),
        ((), "which hosts? There are 3", 2),
        (("--hosts", "all"), "all is 3 hosts: say how many of them the run takes", 2),
        (("--hosts", "gpu01", "-d"), "--detach makes no sense in a schedule", 2),
        (("--hosts", "gpu01", "--dry-run"), "--dry-run makes no sense in a schedule", 2),
        (("--hosts", "gpu01", "-e", "TOKEN"), "--env TOKEN: cron has not your environment", 2),
        (("--hosts", "gpu01", "--no-such"), "--no-such", 2),
        (("--hosts", "gpu01", "--", "echo", "a\nb"), "can't hold a line break", 2),
    ],
)
def test_what_can_never_run_is_refused_and_the_crontab_stays(table, tmp_path, words, complaint, code):
    done = added(tmp_path, *words)
    assert done.status == code
    assert complaint in done.err
    assert done.err.startswith("orch: ")
    assert done.err.count("\n") == 1
    assert table.read_text() == FOREIGN


@pytest.mark.parametrize("name", ["two words", "../x", "", "latest", "a" * 65, "20261130-x"])
def test_a_name_that_cant_be_is_refused(table, tmp_path, name):
    done = call(tmp_path, "schedule", "add", name, "--cron", "@daily", "--hosts", "gpu01", "--", "true")
    assert done.status == 2
    assert table.read_text() == FOREIGN


def test_a_second_entry_of_a_name_is_refused(table, tmp_path):
    added(tmp_path, "--hosts", "gpu01", "--", "true")
    before = table.read_text()
    done = added(tmp_path, "--hosts", "gpu02", "--", "true")
    assert done.status == 2
    assert done.err == ("orch: 'nightly' is in the crontab already. First: orch schedule remove nightly\n")
    assert table.read_text() == before


def test_a_secret_of_the_environment_is_warned_about(table, tmp_path):
    done = added(tmp_path, "--hosts", "box", "--", "true")
    assert done.status == 0
    assert "warning: WANDB_API_KEY comes from your environment, which cron has not" in done.err


def test_removing_what_is_not_there_says_what_is(table, tmp_path):
    added(tmp_path, "--hosts", "gpu01", "--", "true")
    done = call(tmp_path, "schedule", "remove", "nightyl")
    assert (done.status, done.err) == (
        2,
        "orch: no entry 'nightyl' in the crontab. Did you mean nightly?\n",
    )


def test_list_shows_entries_and_their_last_firing(table, tmp_path):
    assert call(tmp_path, "schedule", "list").err.startswith("no entries")
    assert call(tmp_path, "schedule", "list", "--json").out.endswith('"rows": [],\n  "failures": []\n}\n')
    added(tmp_path, "--hosts", "gpu01", "--", "python3", "train.py")
    with table.open("a") as file:
        file.write("# BEGIN orch odd\n* * * * * changed by hand\n# END orch odd\n")
    out = call(tmp_path, "schedule", "list").out.splitlines()
    assert out[0].split() == ["NAME", "WHEN", "LAST", "FOLDER", "TRAIN"]
    assert out[1].split(maxsplit=8)[:6] == ["nightly", "30", "2", "*", "*", "*"]
    assert "--name nightly --hosts gpu01 -- python3 train.py" in out[1]
    assert "changed by hand" in out[2]
    first, second = json.loads(call(tmp_path, "schedule", "list", "--json").out)["rows"]
    assert first["train"] == ["--name", "nightly", "--hosts", "gpu01", "--", "python3", "train.py"]
    assert (first["cron"], first["folder"], first["last"]) == ("30 2 * * *", str(tmp_path), None)
    assert (second["name"], second["cron"], second["line"]) == ("odd", None, "* * * * * changed by hand")


def test_a_firing_that_fails_says_one_line_and_its_status(table, tmp_path):
    """As cron calls it: the words are on the line, and nobody watches."""
    words = ("nightly", "--inventory", str(tmp_path / "gone.ini"), "--hosts", "gpu01", "--", "true")
    done = call(tmp_path, "schedule", "run", *words)
    assert done.status == 78
    assert done.out == ""
    log = tmp_path / ".local/state/orch/schedule/nightly.log"
    assert done.err.startswith("orch: nightly: status 78 after ")
    assert "gone.ini: can't read the inventory" in done.err
    assert done.err.endswith(f"(see {log})\n")
    assert done.err.count("\n") == 1
    assert "gone.ini: can't read the inventory" in log.read_text()


def test_run_by_hand_does_what_cron_does(table, tmp_path):
    added(tmp_path, "--hosts", "gpu01", "--", "true")
    (tmp_path / "hosts.ini").write_text("gpu01 shm_size=x\n")
    done = call(tmp_path, "schedule", "run", "nightly")
    assert done.status == 78
    log = tmp_path / "state/orch/schedule/nightly.log"
    assert "hosts.ini:1: shm_size: expected a size" in log.read_text()
    assert call(tmp_path, "schedule", "run", "nightl").status == 2
