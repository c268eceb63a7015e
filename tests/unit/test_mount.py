"""What a folder stands on: the real script on real mounts, and its answer read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.facts.lines import Lines
from orchestrator.facts.mount import Mount, mount
from orchestrator.render import render

from .shells import SHELLS

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def look(
    shell: list[str], path: Path, *, become: list[str] | None = None, tools: Path | None = None
) -> Mount:
    text = render("facts/disk.sh.j2") + render("facts/mount.sh.j2") + 'orch_mount "$1"\n'
    way = f"{tools}:/usr/bin:/bin" if tools else "/usr/bin:/bin"
    done = subprocess.run(
        [*(become or []), *shell, "-c", text, "sh", str(path)],
        env={"PATH": way, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return mount(Lines(done.stdout))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, at a path with a blank."""
    folder = tmp_path / "a disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("shell", SHELLS)
class TestMount:
    def test_a_folder_that_can_be_made(self, shell: list[str], tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        found = look(shell, tmp_path / "a/b")
        assert (found.trouble, found.executes) == (None, True)
        assert found.kind
        assert "rw" in found.options

    def test_below_a_file(self, shell: list[str], tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        found = look(shell, tmp_path / "file/orch")
        assert found.problem("ana") == f"{tmp_path}/file is a file"

    def test_a_link(self, shell: list[str], tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        (tmp_path / "good").symlink_to("there")
        (tmp_path / "bad").symlink_to("nowhere")
        assert look(shell, tmp_path / "good/orch").trouble is None
        assert look(shell, tmp_path / "bad/orch").problem("ana") == (
            f"{tmp_path}/bad is a link to what is not there"
        )

    @ROOT_ONLY
    def test_where_the_account_may_not_write(self, shell: list[str], tmp_path: Path) -> None:
        for folder in (p for p in (tmp_path, *tmp_path.parents) if "pytest" in str(p)):
            folder.chmod(0o755)
        found = look(shell, tmp_path / "orch", become=NOBODY)
        assert found.problem("ana") == f"ana may not write in {tmp_path}"

    @ROOT_ONLY
    def test_read_only_and_noexec(self, shell: list[str], disk: Path) -> None:
        found = look(shell, disk / "orch")
        assert (found.kind, found.executes, found.trouble) == ("tmpfs", True, None)
        subprocess.run(["mount", "-o", "remount,ro,noexec", disk], check=True)
        found = look(shell, disk / "orch")
        assert not found.executes
        assert found.problem("ana") == f"the disk of {disk} is read-only"

    def test_locks(self, shell: list[str], tmp_path: Path) -> None:
        assert look(shell, tmp_path).locks is None
        (tmp_path / "file").touch()
        (tmp_path / "tools").mkdir()
        assert look(shell, tmp_path).locks is True
        with subprocess.Popen(
            ["flock", str(tmp_path / "file"), "sh", "-c", "echo; cat"], stdin=-1, stdout=-1
        ) as it:
            assert it.stdout
            assert it.stdout.readline()
            assert look(shell, tmp_path).locks is True, "held by somebody: so there are locks"
            it.communicate()
        flock = tmp_path / "tools" / "flock"
        flock.write_text("#!/bin/sh\necho 'flock: 8: No locks available' >&2\nexit 71\n")
        flock.chmod(0o755)
        assert look(shell, tmp_path, tools=tmp_path / "tools").locks is False


def test_an_answer_of_a_host_without_proc_mounts() -> None:
    assert mount(Lines("mount\t\n")) == Mount()
