"""Sending files, on real shells and file systems."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, UsageError
from orchestrator.files.listing import list_files
from orchestrator.files.local import Changed, content, local
from orchestrator.files.sending import Sending
from orchestrator.hosts.line import Line
from tests.unit.here import Here
from tests.unit.transfer.cutting import Cut
from tests.unit.transfer.trees import ODD, fill, put, tree


def sent(machine: Here, source: Path, into: str, **how: bool) -> tuple[str, int, tuple[str, ...]]:
    result = Sending(local(source), into, "token", **how).over(Line(machine))
    return result.into, result.count, result.notes


def test_a_folder_goes_to_a_new_name_or_into_a_folder(machine: Here, there: Path, here: Path) -> None:
    for number, name in enumerate(ODD):
        put(here / "data" / "sub" / name, os.urandom(number * 30_000), 1_600_000_000 + number)
    put(here / "data" / "run.sh", "#!").chmod(0o755)
    (here / "data" / "link").symlink_to("sub/é")
    (here / "data" / "empty").mkdir()
    count = len(ODD) + 2
    assert sent(machine, here / "data", "~/there/digits") == (f"{there}/digits", count, ())
    assert sent(machine, here / "data", "~/there") == (f"{there}/data", count, ())
    for name in ("digits", "data"):
        assert tree(there / name) == tree(here / "data")
        assert (there / name / "empty").is_dir()
        assert os.access(there / name / "run.sh", os.X_OK)
        assert int((there / name / "sub" / ODD[2]).stat().st_mtime) == 1_600_000_002
    assert {p.name for p in there.iterdir()} == {"digits", "data"}


def test_only_what_changed_is_sent_and_newer_files_stay(machine: Here, there: Path, here: Path) -> None:
    fill(here / "d", a="1", b="2", **{"sub/c": "3"})
    sent(machine, here / "d", "~/there/d")
    assert sent(machine, here / "d", "~/there/") == (f"{there}/d", 0, ())
    put(here / "d" / "a", "new", 1_700_000_009)
    put(there / "d" / "b", "newer there", 1_700_000_009)
    put(there / "d" / "mine", "stays")
    assert sent(machine, here / "d", "~/there") == (f"{there}/d", 1, (f"kept: {there}/d/b (newer there)",))
    assert tree(there / "d") == {"a": b"new", "b": b"newer there", "mine": b"stays", "sub/c": b"3"}
    assert sent(machine, here / "d", "~/there", overwrite=True) == (f"{there}/d", 1, ())
    assert tree(there / "d")["b"] == b"2"


def test_one_file(machine: Here, there: Path, here: Path) -> None:
    put(here / "a.npz", "1")
    assert sent(machine, here / "a.npz", "~/there")[0] == f"{there}/a.npz"
    assert sent(machine, here / "a.npz", "~/there/b.npz")[0] == f"{there}/b.npz"
    put(here / "a.npz", "2", 1_700_000_009)
    sent(machine, here / "a.npz", "~/there/b.npz")
    assert tree(there) == {"a.npz": b"1", "b.npz": b"2"}


def test_what_can_t_be_copied_is_said(machine: Here, there: Path, here: Path) -> None:
    put(here / "d" / "a", "1")
    put(there / "file", "x")
    (there / "a").mkdir()
    with pytest.raises(HostError, match=r"here: there is no folder for .*/no/x"):
        sent(machine, here / "d", "~/there/no/x")
    with pytest.raises(HostError, match=r"here: .*/there/file is a file there"):
        sent(machine, here / "d", "~/there/file")
    put(there / "f" / "a" / "b", "")
    with pytest.raises(HostError, match=r"here: .*/f/a is a folder there"):
        sent(machine, here / "d" / "a", "~/there/f")
    with pytest.raises(UsageError, match=r"nothing: no such file"):
        local(here / "nothing")
    os.mkfifo(here / "d" / "fifo")
    assert local(here / "d").notes == ("not sent: fifo (neither file nor folder)",)
    (here / "d" / "link").symlink_to("/etc/hosts")
    with pytest.raises(UsageError, match=r"d/link is a link to /etc/hosts, which is not in"):
        local(here / "d")


@pytest.mark.parametrize("up", [0, 100, 512, 1024, 2048])
def test_a_copy_that_is_cut_is_not_to_be_seen(machine: Here, there: Path, here: Path, up: int) -> None:
    put(here / "d" / "a", "x" * 1000)
    with pytest.raises(LostConnection):
        sent(Cut(machine, up=up), here / "d", "~/there/d")
    assert {p.name for p in there.iterdir()} <= {".orch-part-token"}
    assert sent(machine, here / "d", "~/there/d") == (f"{there}/d", 1, ())
    assert tree(there) == {"d/a": b"x" * 1000}


def test_a_fifo_keeps_nobody_waiting(machine: Here, here: Path) -> None:
    os.mkfifo(here / "fifo")
    with pytest.raises(UsageError, match="fifo is neither a file nor a folder"):
        local(here / "fifo")
    what = local(put(here / "d" / "a", "1").parent)
    (here / "d" / "a").unlink()
    os.mkfifo(here / "d" / "a")
    with pytest.raises(Changed):
        list(content(here / "d" / "a", what.items[-1]))


@pytest.fixture
def small_disk(there: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("a full disk needs root, to mount one")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "orch-test", there], check=True)
    yield there
    subprocess.run(["umount", there], check=True)


def test_a_full_disk_is_said_before_and_meanwhile(
    machine: Here, small_disk: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "big", os.urandom(2_000_000))
    with pytest.raises(HostError, match=r"here: no space left on device: 2\.0 MB needed, 1\.0 MB free"):
        sent(machine, here / "big", "~/there/big")
    real: Callable[..., object] = list_files
    monkeypatch.setattr(
        "orchestrator.files.sending.list_files",
        lambda *a, **k: __import__("dataclasses").replace(real(*a, **k), free=None),  # type: ignore[type-var]
    )
    with pytest.raises(HostError, match=r"here: no space left on device: 2\.0 MB needed, \d"):
        sent(machine, here / "big", "~/there/big")
    assert list(small_disk.iterdir()) == []
