"""Hosts that send what nobody asked for, and cuts: nothing lands where it should not."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, OrchError
from orchestrator.files.bringing import fetch
from orchestrator.files.fetching import Source
from orchestrator.files.listing import Item
from orchestrator.files.receiving import Wanted
from orchestrator.hosts.line import Line
from tests.unit.here import Here, HereStream
from tests.unit.transfer.trees import tree


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
        fetch(Line(Sending(sent)), Source("/x", ()), taken(here, "a"), here)
    assert set(tree(here)) <= {"a"}


def test_nothing_is_written_through_a_link_that_the_host_sent(here: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for target in (str(outside), "../outside"):
        sent = archive(("./a", "link", target.encode()), ("./a/b", "file", b"x"))
        fetch(Line(Sending(sent)), Source("/x", ()), taken(here, "a", "a/b"), here)
        assert list(outside.iterdir()) == []
        shutil.rmtree(here)
        here.mkdir()
    notes = fetch(
        Line(Sending(archive(("./a", "link", b"../outside")))), Source("/x", ()), taken(here, "a"), here
    )
    assert notes == ["not fetched: a (a link to ../outside)"]


def test_a_link_here_does_not_lead_out_of_the_folder(here: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (here / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(OrchError, match=r"would land in .*/outside, outside of"):
        fetch(Line(Sending(archive(("./a/b", "file", b"x")))), Source("/x", ()), taken(here, "a/b"), here)


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
    notes = fetch(Line(Sending(sent)), Source("/x", ()), taken(here, "model", "Model"), here)
    assert notes == ["not fetched: Model (the disk here takes it and model for one file)"]
    assert (here / "model").read_bytes() == b"small"


def test_a_file_that_got_the_number_of_one_that_another_fetch_replaced_is_no_twin(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found where `b` goes is what was `a` just now, as where inodes are given anew."""
    replaced = Path.replace

    def replace(self: Path, target: Path) -> Path:
        done = replaced(self, target)
        if target == here / "a":
            replaced(here / "a", here / "b")
            (here / "a").write_text("small")
        return done

    monkeypatch.setattr(Path, "replace", replace)
    sent = archive(("./a", "file", b"small"), ("./b", "file", b"big"))
    assert fetch(Line(Sending(sent)), Source("/x", ()), taken(here, "a", "b"), here) == []
    assert (here / "b").read_bytes() == b"big"


def test_a_special_file_does_not_come(here: Path) -> None:
    notes = fetch(Line(Sending(archive(("./a", "fifo", b"")))), Source("/x", ()), taken(here, "a"), here)
    assert notes == ["not fetched: a (no file any more)"]


@pytest.mark.parametrize("kept", [0, 100, 512, 700, 1024])
def test_a_transfer_that_is_cut_shows_whole_files_only(here: Path, kept: int) -> None:
    sent = archive(("./a", "file", b"x" * 400), ("./b", "file", b"y" * 400))[:kept]
    if kept == 1024:
        notes = fetch(Line(Sending(sent)), Source("/x", ()), taken(here, "a", "b"), here)
        assert notes == ["not fetched: b (the host did not send it)"]
    else:
        with pytest.raises(LostConnection, match="the transfer was cut off"):
            fetch(Line(Sending(sent)), Source("/x", ()), taken(here, "a", "b"), here)
    assert tree(here) == ({"a": b"x" * 400} if kept >= 1024 else {})
