"""Listing, fetching and sending files, on real shells and file systems."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, OrchError, UsageError
from orchestrator.files import fetching
from orchestrator.files.fetching import Wanted, check_room, fetch, named, plan, written
from orchestrator.files.listing import Item, list_files, parse
from orchestrator.files.sending import local, send
from tests.unit.here import Here, HereStream, machine_of

BUSYBOX_TOOLS = [
    "awk",
    "chown",
    "df",
    "find",
    "id",
    "mkdir",
    "mv",
    "printf",
    "rm",
    "sh",
    "stat",
    "tar",
    "tr",
    "xargs",
]
ODD = ("-rf", "new\nline", "it's", "é", "a b", os.fsdecode(b"latin\xe9"), "x" * 200)


@pytest.fixture(params=["dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    return machine_of(request.param, tmp_path, BUSYBOX_TOOLS)


@pytest.fixture
def there(machine: Here) -> Path:
    folder = Path(machine.env["HOME"]) / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def fill(folder: Path, **files: str) -> None:
    for name, content in files.items():
        put(folder / name, content)


def put(place: Path, content: str | bytes, mtime: int = 1_700_000_000) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(place, (mtime, mtime))
    return place


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): os.fsencode(os.readlink(p)) if p.is_symlink() else p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_symlink() or not p.is_dir()
    }


def bring(machine: Here, path: Path | str, to: Path, *, overwrite: bool = False) -> list[str]:
    source = named(machine, str(path), to)
    chosen = plan(source.wanted, overwrite=overwrite)
    return [*source.notes, *chosen.kept, *fetch(machine, source, chosen.take, to.parent)]


# Listing


def test_a_listing_tells_kind_size_mode_and_time(machine: Here, there: Path) -> None:
    for name in ODD:
        put(there / "d" / name, "abc", 1_600_000_001)
    (there / "d" / "run.sh").write_text("")
    (there / "d" / "run.sh").chmod(0o750)
    (there / "d" / "link").symlink_to("run.sh")
    (there / "d" / "sub").mkdir()
    os.mkfifo(there / "d" / "fifo")
    put(there / "d" / "sub" / "deep", "x")
    answer = list_files(
        machine, [("~/there/d", None), ("~/there/d", 1), ("~/there/d/é", None), ("~/no", None)]
    )
    whole, shallow, one, missing = answer.roots
    items = {item.path: item for item in whole.items}
    assert set(items) == {"", *ODD, "run.sh", "link", "sub", "sub/deep", "fifo"}
    assert {i.path for i in whole.items} - {i.path for i in shallow.items} == {"sub/deep"}
    assert items["é"] == Item("é", "file", 0o644, 3, 1_600_000_001)
    assert (items["run.sh"].mode, items["run.sh"].executable) == (0o750, True)
    assert [items[n].kind for n in ("link", "sub", "fifo", "")] == ["link", "dir", "other", "dir"]
    assert [(i.path, i.size) for i in one.items] == [("", 3)]
    assert (missing.kind, missing.items) == ("missing", ())


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", ".."])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(HostError, match="makes no sense"):
        parse(f"//root dir\n//81a4 1 1 ./{name}\n".encode(), "gpu01")


# Fetching


def test_a_folder_arrives_as_it_is(machine: Here, there: Path, here: Path) -> None:
    for number, name in enumerate(ODD):
        put(there / "d" / "sub" / name, os.urandom(number * 30_000), 1_600_000_000 + number)
    (there / "d" / "sub" / "link").symlink_to("../run.sh")
    put(there / "d" / "run.sh", "#!").chmod(0o755)
    os.link(there / "d" / "run.sh", there / "d" / "hard")
    assert bring(machine, there / "d", here / "d") == []
    assert tree(here / "d") == tree(there / "d")
    got = here / "d" / "sub" / ODD[2]
    assert int(got.stat().st_mtime) == 1_600_000_002
    assert os.access(here / "d" / "run.sh", os.X_OK)
    assert not os.access(got, os.X_OK) or os.geteuid() == 0
    assert got.stat().st_mode & 0o111 == 0


def test_what_came_already_is_not_sent_again(machine: Here, there: Path, here: Path) -> None:
    fill(there, a="1", b="2")
    assert bring(machine, there, here / "d") == []
    put(there / "b", "3", 1_700_000_005)
    source = named(machine, str(there), here / "d")
    chosen = plan(source.wanted, overwrite=False)
    assert ([w.name for w in chosen.take], chosen.same, chosen.size) == (["b"], 1, 1)


def test_a_newer_file_here_stays_unless_overwritten(machine: Here, there: Path, here: Path) -> None:
    put(there / "a", "there", 1000)
    put(here / "d" / "a", "here", 2000)
    assert bring(machine, there, here / "d") == [
        f"kept: {here}/d/a (newer here; --overwrite takes the other)"
    ]
    assert tree(here / "d") == {"a": b"here"}
    assert bring(machine, there, here / "d", overwrite=True) == []
    assert tree(here / "d") == {"a": b"there"}
    put(there / "a", "once more", 3000)  # newer there
    assert bring(machine, there, here / "d") == []
    assert tree(here / "d") == {"a": b"once more"}


def test_one_file_through_a_link(machine: Here, there: Path, here: Path) -> None:
    put(there / "model.h5", "weights")
    (there / "latest").symlink_to("model.h5")
    assert bring(machine, "~/there/latest", here / "best.h5") == []
    assert tree(here) == {"best.h5": b"weights"}


def test_what_is_not_there_is_said(machine: Here, there: Path, here: Path) -> None:
    with pytest.raises(HostError, match=r"here: ~/there/x is not there"):
        bring(machine, "~/there/x", here / "x")
    os.mkfifo(there / "fifo")
    fill(there, a="1")
    assert bring(machine, there, here / "d") == ["not fetched: fifo (neither file nor folder)"]
    with pytest.raises(HostError, match="neither a file nor a folder"):
        bring(machine, there / "fifo", here / "x")


def test_a_file_that_goes_meanwhile_is_said_and_the_others_come(
    machine: Here, there: Path, here: Path
) -> None:
    fill(there, a="1", b="2", c="3")
    source = named(machine, str(there), here / "d")
    (there / "b").unlink()
    notes = fetch(machine, source, plan(source.wanted, overwrite=False).take, here)
    assert len(notes) == 1
    assert notes[0].startswith("not fetched: b (tar: ")
    assert tree(here / "d") == {"a": b"1", "c": b"3"}


def test_a_folder_here_is_not_replaced_by_a_file(machine: Here, there: Path, here: Path) -> None:
    fill(there, a="1")
    (here / "d" / "a").mkdir(parents=True)
    assert bring(machine, there, here / "d") == [f"kept: {here}/d/a (a folder here)"]


def test_what_can_t_be_written_is_one_line(machine: Here, there: Path, here: Path) -> None:
    put(there / "sub" / "a", "1")
    put(here / "d" / "sub", "a file")
    with pytest.raises(OrchError, match=r"sub/a can't be written: (file exists|not a directory)"):
        bring(machine, there, here / "d")


class Sending(Here):
    """A host that sends what the test says, whatever it is asked."""

    def __init__(self, archive: bytes) -> None:
        super().__init__(Path("/nowhere"))
        self.file = tempfile.NamedTemporaryFile()  # noqa: SIM115
        self.file.write(archive)
        self.file.flush()

    def stream(self, *args: object, **kwargs: object) -> HereStream:
        return HereStream(self.shell, f"cat {self.file.name}; cat >/dev/null", self.env)


def archive(*members: tuple[str, str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = {"file": tarfile.REGTYPE, "link": tarfile.SYMTYPE, "fifo": tarfile.FIFOTYPE}[kind]
            if kind == "link":
                info.linkname = content.decode()
            info.size = len(content) if kind == "file" else 0
            out.addfile(info, io.BytesIO(content))
    return made.getvalue()


def taken(here: Path, *names: str) -> list[Wanted]:
    return [Wanted(name, Item(name, "file", 0o644, 1, 5), here / name) for name in names]


EVIL: dict[str, tuple[bytes, str]] = {
    "not asked for": (archive(("./b", "file", b"x")), "what nobody asked for: './b'"),
    "dots": (archive(("../a", "file", b"x")), "what nobody asked for"),
    "absolute": (archive(("/etc/a", "file", b"x")), "what nobody asked for"),
    "twice": (archive(("./a", "file", b"x"), ("./a", "file", b"y")), "what nobody asked for"),
}


@pytest.mark.parametrize("case", EVIL)
def test_a_host_that_sends_something_else_is_refused(here: Path, case: str) -> None:
    sent, words = EVIL[case]
    with pytest.raises(HostError, match=words):
        fetch(Sending(sent), fetching.Source("/x", ()), taken(here, "a"), here)
    assert set(tree(here)) <= {"a"}


def test_nothing_is_written_through_a_link_that_the_host_sent(here: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for target in (str(outside), "../outside"):
        sent = archive(("./a", "link", target.encode()), ("./a/b", "file", b"x"))
        fetch(Sending(sent), fetching.Source("/x", ()), taken(here, "a", "a/b"), here)
        assert list(outside.iterdir()) == []
        shutil.rmtree(here)
        here.mkdir()
    notes = fetch(
        Sending(archive(("./a", "link", b"../outside"))), fetching.Source("/x", ()), taken(here, "a"), here
    )
    assert notes == ["not fetched: a (a link to ../outside)"]


def test_a_link_here_does_not_lead_out_of_the_folder(here: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (here / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(OrchError, match=r"would land in .*/outside, outside of"):
        fetch(Sending(archive(("./a/b", "file", b"x"))), fetching.Source("/x", ()), taken(here, "a/b"), here)


def test_of_two_names_that_are_one_file_here_the_first_comes(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk on which case does not count, as those of macOS: there `Model` is found where `model` is."""
    replaced = Path.replace

    def replace(self: Path, target: Path) -> Path:
        done = replaced(self, target)
        (here / "Model").hardlink_to(here / "model")
        return done

    monkeypatch.setattr(Path, "replace", replace)
    sent = archive(("./model", "file", b"small"), ("./Model", "file", b"big"))
    notes = fetch(Sending(sent), fetching.Source("/x", ()), taken(here, "model", "Model"), here)
    assert notes == ["not fetched: Model (the disk here takes it and model for one file)"]
    assert (here / "model").read_bytes() == b"small"


def test_a_special_file_does_not_come(here: Path) -> None:
    notes = fetch(Sending(archive(("./a", "fifo", b""))), fetching.Source("/x", ()), taken(here, "a"), here)
    assert notes == ["not fetched: a (no file any more)"]


@pytest.mark.parametrize("kept", [0, 100, 512, 700, 1024])
def test_a_transfer_that_is_cut_shows_whole_files_only(here: Path, kept: int) -> None:
    sent = archive(("./a", "file", b"x" * 400), ("./b", "file", b"y" * 400))[:kept]
    if kept == 1024:
        notes = fetch(Sending(sent), fetching.Source("/x", ()), taken(here, "a", "b"), here)
        assert notes == ["not fetched: b (the host did not send it)"]
    else:
        with pytest.raises(LostConnection, match="the transfer was cut off"):
            fetch(Sending(sent), fetching.Source("/x", ()), taken(here, "a", "b"), here)
    assert tree(here) == ({"a": b"x" * 400} if kept >= 1024 else {})


def test_room_is_checked_before(here: Path) -> None:
    check_room(1, here / "not" / "made" / "yet")
    with pytest.raises(OrchError, match=r"no room in .*: 1\.0 EB needed|1000 PB needed"):
        check_room(10**18, here)


def test_what_a_run_wrote_is_what_its_code_has_not(machine: Here, there: Path, here: Path) -> None:
    bundle, worker = there / "bundle", there / "run" / "gpu01"
    fill(bundle, **{"train.py": "1", "config.json": "{}", "data/x": "x"})
    (bundle / "link").symlink_to("train.py")
    worker.mkdir(parents=True)
    subprocess.run(["cp", "-R", "-p", bundle, worker / "work"], check=True)
    work = worker / "work"
    put(work / "config.json", "[]", 1_700_000_001)
    put(work / "checkpoints/1.h5", "w")
    put(work / "__pycache__/train.pyc", "c")
    (work / "best").symlink_to("checkpoints/1.h5")
    source = written(machine, str(worker), str(bundle), here / "d")
    chosen = plan(source.wanted, overwrite=False)
    assert sorted(w.name for w in chosen.take) == ["best", "checkpoints/1.h5", "config.json"]
    assert fetch(machine, source, chosen.take, here / "d") == []
    assert tree(here / "d") == {"best": b"checkpoints/1.h5", "checkpoints/1.h5": b"w", "config.json": b"[]"}
    shutil.rmtree(bundle)  # its code was cleared away: all of it is taken
    source = written(machine, str(worker), str(bundle), here / "d")
    assert len(plan(source.wanted, overwrite=False).take) == 3
    shutil.rmtree(work)
    with pytest.raises(HostError, match="no work folder any more"):
        written(machine, str(worker), str(bundle), here / "d")


# Sending


def sent(machine: Here, source: Path, into: str, **how: bool) -> tuple[str, int, tuple[str, ...]]:
    result = send(machine, local(source), into, **how)
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


def test_a_copy_that_is_cut_leaves_nothing(
    machine: Here, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "d" / "a", "x" * 1000)
    real = __import__("orchestrator.files.sending", fromlist=["_pieces"])._pieces
    for kept in (0, 100, 512, 1024, 2048, 2300):
        monkeypatch.setattr(
            "orchestrator.files.sending._pieces", lambda *a, kept=kept: iter([b"".join(real(*a))[:kept]])
        )
        with pytest.raises(HostError, match="could not be written"):
            sent(machine, here / "d", "~/there/d")
        assert list(there.iterdir()) == []


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
