"""Copies of images: what is the same, what an archive holds, how it is packed, and one stream to several."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.image.copying import spread
from orchestrator.container.image.copying.archive import check_named, read_archive
from orchestrator.container.image.copying.cargo import Cargo, cargo, engine_name, pick, plain
from orchestrator.container.image.copying.file import File
from orchestrator.container.image.copying.packing import choose, packer, unpacker
from orchestrator.container.image.copying.spread import Lane, Spread
from orchestrator.errors import Busy, LostConnection, OrchError, Refused, UsageError
from orchestrator.facts.copying import CopyingReport
from orchestrator.facts.images import HostImage, config_text
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine, FakeStream
from orchestrator.render import render

DIFF = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
RUNS: dict[str, Any] = {"Env": ["A=1"], "Cmd": ["/x"], "Entrypoint": None}


def image(*tags: str, identity: str = "aa11bb22", layers: str = DIFF[:23], **more: Any) -> HostImage:
    config = config_text(["A=1"], more.get("entrypoint"), ["/x"], "", "")
    return HostImage(identity, tags, 100, None, {}, (layers,), True, "amd64", config)


def write(path: Path, images: int = 1, *, layer: bool = True) -> Path:
    """An archive as docker save writes it."""
    config = {"architecture": "amd64", "config": RUNS, "rootfs": {"diff_ids": [DIFF]}}
    manifest = [{"Config": "aa11.json", "RepoTags": ["tiny:2"], "Layers": ["l/layer.tar"]}] * images
    files = {"aa11.json": json.dumps(config), "manifest.json": json.dumps(manifest)}
    with tarfile.open(path, "w") as archive:
        for name, text in {**files, **({"l/layer.tar": "x" * 100} if layer else {})}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_an_image_is_the_same_by_its_layers_and_what_it_runs() -> None:
    here = cargo(image("tiny:2"))
    assert here.same(cargo(image("localhost/tiny:2", identity="other", entrypoint=[])))
    assert not here.same(cargo(image("tiny:2", layers="sha256:another")))
    assert not here.same(cargo(image("tiny:2", entrypoint=["/y"])))


def test_names_are_those_of_docker_and_podman_keeps_its_own() -> None:
    names = ["localhost/orch/a:1", "docker.io/library/busybox", "docker.io/org/x:2", "registry:5000/x", "b"]
    assert [plain(n) for n in names] == [
        "orch/a:1", "busybox:latest", "org/x:2", "registry:5000/x:latest", "b:latest",
    ]  # fmt: skip
    assert engine_name("docker.io/orch/a:1", "podman") == "localhost/orch/a:1"
    assert engine_name("docker.io/library/b:1", "podman") == "docker.io/library/b:1"
    assert engine_name("localhost/orch/a:1", "docker") == "orch/a:1"


def test_an_image_is_named_by_tag_or_id() -> None:
    there = [image("tiny:2", "other:1"), image("big:1", identity="aa11cc33")]
    assert pick("tiny:2", there, "gpu01").names == ("tiny:2",)
    assert pick("sha256:aa11bb", there, "gpu01").names == ("tiny:2", "other:1")
    with pytest.raises(UsageError, match="no image aa11aa on gpu01"):
        pick("aa11aa", there, "gpu01")
    with pytest.raises(UsageError, match="aa11bb is 2 images on gpu01"):
        pick("aa11bb", [*there, image("x:1", identity="aa11bb33")], "gpu01")


def test_what_an_archive_holds(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tar")
    found = read_archive(file)
    assert found.same(cargo(image()))
    assert (found.names, found.arch, found.size) == (("tiny:2",), "amd64", 100)
    check_named("tiny:2", found, file)
    check_named("aa11", found, file)
    with pytest.raises(UsageError, match="holds tiny:2, not big:1"):
        check_named("big:1", found, file)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda p: write(p, images=2), "holds 2 images"),
        (lambda p: write(p, layer=False), "no whole image"),
        (lambda p: p.write_bytes(write(p).read_bytes()[:1500]), "no whole image"),
        (lambda p: p.write_text("x"), "no whole image"),
        (lambda p: None, "no such file"),
    ],
)
def test_what_is_no_image_is_said(tmp_path: Path, made: Any, words: str) -> None:
    made(tmp_path / "a.tar")
    with pytest.raises(UsageError, match=words):
        read_archive(tmp_path / "a.tar")


def programs(*names: str) -> CopyingReport:
    return CopyingReport("ana", frozenset(names))


def test_packed_as_all_ends_can() -> None:
    new, old, bare = programs("zstd", "gzip"), programs("pigz", "gzip"), programs()
    assert choose([new, new], local=False) == "zstd"
    assert choose([new, old], local=False) == "gzip"
    assert choose([new, bare], local=False) == "none"
    assert choose([new, new], local=True) == "none"
    assert packer("gzip", old)[3:5] == ("pigz", "-1")
    assert unpacker("gzip", new)[:2] == ("gzip", "-d")
    assert packer("none", new) == unpacker("none", new) == ()


@pytest.mark.parametrize("how", [name for name in ("zstd", "gzip") if shutil.which(name)])
@pytest.mark.parametrize("cut", [0.0, 0.5, 0.999])
def test_a_stream_that_was_cut_ends_in_what_is_no_archive(tmp_path: Path, how: str, cut: float) -> None:
    """Else an engine that gets its first files alone might make something of them."""
    sent = write(tmp_path / "a.tar").read_bytes() * 20
    end = programs(how)
    save = render("container/image_save.sh.j2", read=f"cat {tmp_path}/b.tar", pack=packer(how, end))
    load = render("container/image_load.sh.j2", take=f"cat > {tmp_path}/got", unpack=unpacker(how, end))
    (tmp_path / "b.tar").write_bytes(sent)
    packed = subprocess.run(["sh", "-c", save], capture_output=True, check=True).stdout
    subprocess.run(["sh", "-c", load], input=packed[: int(len(packed) * cut)], check=False)
    got = (tmp_path / "got").read_bytes()
    assert got.endswith(b"x" * spread.SPOIL)
    subprocess.run(["sh", "-c", load], input=packed, check=True)
    assert (tmp_path / "got").read_bytes() == sent


def test_what_can_not_be_read_whole_spoils_the_stream_too() -> None:
    save = render("container/image_save.sh.j2", read="printf half; false", pack=())
    done = subprocess.run(["sh", "-c", save.replace("printf half; false", "{ printf half; false; }")],
                          capture_output=True, check=False)  # fmt: skip
    assert done.stdout == b"half" + b"x" * spread.SPOIL
    assert b"orch: not whole" in done.stderr


class Source(FakeStream):
    """A stream of so many pieces; `fails`: that is lost then."""

    def __init__(self, pieces: int, fails: bool = False) -> None:
        super().__init__(Result(0, b"", b""))
        self.left, self.fails = pieces, fails

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        if self.left:
            self.left -= 1
            return b"p" * 65536
        if self.fails:
            raise LostConnection("gone")
        return b""


class Slow(FakeStream):
    """One that takes nothing until it is told to, or closed."""

    def __init__(self) -> None:
        super().__init__(Result(0, b"", b""))
        self.go = threading.Event()

    def write(self, data: bytes) -> None:
        assert self.go.wait(60)
        if self.closed:
            raise LostConnection("closed")
        super().write(data)

    def close(self) -> None:
        super().close()
        self.go.set()


class Dead(FakeStream):
    """One whose connection goes at the third piece."""

    def write(self, data: bytes) -> None:
        if len(self.written) >= 2 * 65536:
            raise LostConnection("gone")
        super().write(data)


def fine() -> FakeStream:
    return FakeStream(Result(0, b"", b""))


def test_one_stream_to_several_and_a_dead_one_harms_nobody() -> None:
    whole, dead, counts = fine(), Dead(Result(0, b"", b"")), list[int]()
    lanes = [Lane(dead), Lane(whole)]
    Spread(lanes).run(Source(100), counts.append)
    assert len(whole.written) == counts[-1] == 100 * 65536
    assert whole.stdin_closed
    assert lanes[0].lost
    assert not lanes[1].lost


def test_one_that_is_much_slower_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "ROOM", 4 * 65536)
    slow, whole = Slow(), fine()
    lanes = [Lane(slow), Lane(whole)]
    Spread(lanes, patience=0.3).run(Source(100), lambda count: None)
    assert (lanes[0].left, lanes[0].lost) == (True, None)
    assert slow.closed
    assert len(whole.written) == 100 * 65536


def test_memory_is_bounded_by_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "ROOM", 4 * 65536)
    slow, source = Slow(), Source(100)
    copying = threading.Thread(target=Spread([Lane(slow)]).run, args=(source, lambda count: None))
    copying.start()
    copying.join(1.0)
    assert source.left >= 90  # it waits for the one there is, however long that takes
    slow.go.set()
    copying.join(60)
    assert len(slow.written) == 100 * 65536


def test_a_lost_source_spoils_what_was_sent() -> None:
    whole = fine()
    with pytest.raises(LostConnection):
        Spread([Lane(whole)]).run(Source(3, fails=True), lambda count: None)
    assert bytes(whole.written) == b"p" * 3 * 65536 + b"x" * spread.SPOIL


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    machine = FakeMachine("here")
    end = File(machine, programs(), tmp_path / "a.tar")
    what = cargo(image("tiny:2"))
    with end.receiving():
        with pytest.raises(Busy, match="another orch"), File(machine, programs(), end.path).receiving():
            pass
        write(end.part)
        end.settle(what, "")
    assert read_archive(end.path).same(what)
    assert end.need(what, overwrite=False) == "there"
    with pytest.raises(Refused, match="is there, and is not big:1"):
        end.need(Cargo(**{**vars(what), "names": ("big:1",)}), overwrite=False)
    with pytest.raises(OrchError, match="could not be written whole"), end.receiving():  # noqa: PT012
        end.part.write_bytes(b"half")
        end.settle(what, "")
    assert sorted(tmp_path.iterdir()) == [end.path]
