"""A team's own Dockerfile and build context: what counts, what is sent, what is refused and where."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.image.context import read_source
from orchestrator.container.image.source import Source
from orchestrator.errors import ConfigError, OrchError

from .deploys import IDENTITY, host


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "image"
    (folder / "conf").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM debian:12\nCOPY conf /conf\n")
    (folder / "conf/a").write_text("one\n")
    (folder / "conf/run.sh").write_text("#!/bin/sh\n")
    (folder / "conf/run.sh").chmod(0o750)
    (folder / "conf/link").symlink_to("/etc/hostname")
    return folder


def read(top: Path, **settings: Any) -> Source:
    source = read_source(host(**{"dockerfile": str(top / "Dockerfile"), **settings}))
    assert source
    return source


def members(source: Source) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(source.tar()))) as archive:
        return {m.name: m for m in archive}


def test_links_and_modes_are_kept(top: Path) -> None:
    sent = members(read(top))
    assert (sent["conf/link"].type, sent["conf/link"].linkname) == (tarfile.SYMTYPE, "/etc/hostname")
    assert (oct(sent["conf/run.sh"].mode), oct(sent["conf/a"].mode)) == ("0o750", oct(0o644))
    assert {(m.uid, m.gid) for m in sent.values()} == {(0, 0)}
    os.mkfifo(top / "pipe")
    assert members(read(top)).keys() == sent.keys()


def test_what_is_left_out_is_still_there_for_the_builder(top: Path) -> None:
    (top / ".dockerignore").write_text("*\n!conf/a\n")
    source = read(top)
    assert [e.path for e in source.entries] == ["conf/a"]
    assert members(source).keys() == {"conf/a", "Dockerfile", ".dockerignore"}
    (top / "Dockerfile.dockerignore").write_text("conf\n")
    assert [e.path for e in read(top).entries] == [".dockerignore", "Dockerfile", "Dockerfile.dockerignore"]


def test_the_digest_counts_names_modes_and_contents(top: Path) -> None:
    found = [read(top).digest]
    os.utime(top / "conf/a", (1, 1))
    assert read(top).digest == found[0]
    for change in (
        lambda: (top / "conf/a").write_text("two\n"),
        lambda: (top / "conf/a").chmod(0o600),
        lambda: (top / "conf/a").rename(top / "conf/b"),
        (top / "empty").mkdir,
        lambda: ((top / "conf/link").unlink(), (top / "conf/link").symlink_to("b")),
        lambda: (top / "Dockerfile").write_text("FROM debian:12\n"),
    ):
        change()
        found.append(read(top).digest)
    assert len({*found}) == len(found)
    assert read(top).tag(IDENTITY) == f"orch/ana-mnist-base:{found[-1][:12]}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Dockerfile": "FROM debian:13\n"}, ["Dockerfile changed"]),
        ({"conf/a": "two\n"}, ["1 file of the build context changed: conf/a"]),
        (
            {"conf/a": "2", "conf/run.sh": "2", "x": "2"},
            ["3 files of the build context changed: conf/a, conf/run.sh, x"],
        ),
        ({"conf/a": None}, ["1 file of the build context changed"]),
        ({"w": "", "x": "", "y": "", "z": ""}, ["4 files of the build context changed: w, x, y, ..."]),
        ({"new/x": ""}, ["1 file of the build context changed: new/x"]),
    ],
)
def test_what_changed_is_named(top: Path, changes: dict[str, str | None], words: list[str]) -> None:
    then = read(top).digests
    assert list(read(top).changed(then)) == []
    for path, text in changes.items():
        (top / path).parent.mkdir(exist_ok=True)
        (top / path).unlink() if text is None else (top / path).write_text(text)
    assert list(read(top).changed(then)) == words


def test_of_very_many_files_none_is_named(top: Path) -> None:
    for number in range(1001):
        (top / str(number)).touch()
    then = read(top).digests
    assert len(str(then)) < 200
    (top / "7").write_text("x")
    assert list(read(top).changed(then)) == ["the build context changed"]


def complaint(**settings: Any) -> str:
    with pytest.raises(ConfigError) as told:
        read_source(host(**settings))
    return str(told.value)


def test_what_cant_be_built_is_told_with_its_place(top: Path) -> None:
    file, context = str(top / "Dockerfile"), str(top)
    gone = complaint(dockerfile=f"{file}.gpu")
    assert gone == f"hosts.ini:10: dockerfile: {file}.gpu: no such file or directory"
    assert complaint(dockerfile=file, build_context=f"{top}/no") == (
        f"hosts.ini:10: build_context: {top}/no is no folder"
    )
    outside = complaint(dockerfile=file, build_context=f"{top}/conf")
    assert f"dockerfile: {file} is outside of the build context {top}/conf. Set build_context to" in outside
    assert "image and dockerfile are both set" in complaint(image="x", dockerfile=file)
    (top / ".dockerignore").write_text("a\n[b\n")
    assert complaint(build_context=context).startswith(f"{top}/.dockerignore:2: '[b' is no pattern")
    (top / ".dockerignore").unlink()
    for text, why in (
        ("# only\n", "1: it has no FROM"),
        ("ARG A\n\nRUN x \\\n y\nFROM a\n", "3: FROM has to come before RUN"),
    ):
        (top / "Dockerfile").write_text(text)
        assert complaint(dockerfile=file).startswith(f"{file}:{why}")


@contextmanager
def nobody() -> Iterator[None]:
    """Root may read everything: be somebody else for the length of a `with`."""
    me = os.geteuid()
    os.seteuid(65534 if me == 0 else me)
    try:
        yield
    finally:
        os.seteuid(me)


@pytest.mark.parametrize("path", ["conf/a", "conf", ".dockerignore"])
def test_what_cant_be_read_is_named(path: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "conf").mkdir()
        for file in ("conf/a", ".dockerignore", "Dockerfile"):
            (top / file).write_text("FROM x\n")
        (top / path).chmod(0)
        with nobody():
            told = complaint(dockerfile=f"{top}/Dockerfile")
        (top / path).chmod(0o755)
    assert f"hosts.ini:10: build_context: {top}/{path}: permission denied. Make it readable, or" in told


def test_a_file_that_changes_meanwhile_makes_no_image(top: Path) -> None:
    source = read(top)
    (top / "conf/a").write_text("three\n")
    with pytest.raises(OrchError, match=r"conf/a changed while the build context was sent\. Deploy again"):
        list(source.tar())
