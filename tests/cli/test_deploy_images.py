"""orch deploy on machines that only pretend: the same packages everywhere, Dockerfiles of one's own, ids."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from orchestrator.container.image.recipe import recipe
from orchestrator.container.inputs import Inputs
from orchestrator.errors import LostConnection
from orchestrator.hosts.fake import FakeMachine, FakeStream, text_of
from orchestrator.inventory import Settings
from tests.cli.calling import call
from tests.cli.test_deploy import BASE, DOCKER, answers, names, project

__all__ = ["project"]  # a fixture


def pins_of(machine: FakeMachine) -> bytes | None:
    """The versions that a build was given; None where nothing was built."""
    built = [s for s, asked in zip(machine.streams, machine.streamed, strict=True) if asked.name == "build"]  # type: ignore[union-attr]
    if not built:
        return None
    with tarfile.open(fileobj=io.BytesIO(bytes(built[0].written).split(b"\n", 1)[1])) as archive:
        pins = archive.extractfile("pins.txt")
        assert pins
        return pins.read()


def test_two_hosts_of_one_deploy_get_the_same_packages(project: Path) -> None:
    inventory = "gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\nrequirements=six\n"
    (project / "hosts.ini").write_text(inventory)
    called = call(project, "deploy", "--yes", "gpu01,gpu02", prepare=answers(f"{DOCKER}\n{BASE}"))
    assert called.status == 0
    assert sorted(map(pins_of, called.machines.values())) == [b"", b"numpy==1.23.5\n"]


def test_a_host_that_has_the_image_gives_its_packages(project: Path) -> None:
    inventory = "gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\nrequirements=six\n"
    (project / "hosts.ini").write_text(inventory)
    wanted = recipe("tensorflow/tensorflow:2.9.3", Settings(), Inputs(requirements=("six",)))
    tag = f"orch/ana-mnist:{wanted.digest[:12]}"
    image = json.dumps({"id": "sha256:cc", "arch": "amd64", "labels": {"orch.recipe": wanted.digest}})

    def prepare(machine: FakeMachine) -> None:
        there = f"\nimage\t{tag}\t{image}" if machine.host.name == "gpu02" else ""
        answers(f"{DOCKER}\n{BASE}{there}")(machine)

    called = call(project, "deploy", "--yes", "gpu01,gpu02", prepare=prepare)
    assert called.status == 0
    assert f"use      {tag} (there already)" in called.err
    assert [pins_of(m) for m in called.machines.values()] == [b"numpy==1.23.5\n", None]


def with_dockerfile(project: Path, text: str = "FROM debian:12\nCOPY a /a\nRUN false\n") -> Path:
    folder = project / "image"
    folder.mkdir()
    (folder / "Dockerfile").write_text(text)
    (folder / "a").write_text("0123456789")
    (project / "hosts.ini").write_text(
        "gpu01\n[all:vars]\nperson=ana\nproject=mnist\ndockerfile=image/Dockerfile\n"
    )
    return folder


def test_a_dockerfile_of_ones_own_is_built_first(project: Path) -> None:
    with_dockerfile(project)

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out="Step 1/3 : FROM debian:12\n")

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert called.status == 0
    assert "./Dockerfile + sshd, python3 if it has none   (built first, of 2 files, 45 B)\n" in called.err
    machine = called.machines["gpu01"]
    assert [getattr(s, "name", "") for s in machine.streamed] == ["turn", "build base", "build", "turn"]
    _exports, rest = bytes(machine.streams[1].written).split(b"\n", 1)
    with tarfile.open(fileobj=io.BytesIO(rest)) as archive:
        assert archive.getnames() == ["Dockerfile", "a"]
    base, top = (text_of(s) for s in machine.streamed[1:3])
    tag = re.search(r"--tag (orch/ana-mnist-base:[0-9a-f]{12})-([0-9a-f]{8}) --file Dockerfile --label", base)
    assert tag
    staged = f"{tag.group(1)}-{tag.group(2)}"
    assert f"engine tag {staged} {tag.group(1)} </dev/null" in top
    assert f"FROM {tag.group(1)}\n".encode() in bytes(machine.streams[2].written)
    assert "--label orch.recipe=" in top
    assert '--label orch.image=\'{"person": "ana", "project": "mnist"' in top


def test_a_context_that_was_cut_off_makes_no_image(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut between two files, it looks whole to a builder."""
    with_dockerfile(project)
    whole = FakeStream.write

    def cut(stream: FakeStream, data: bytes) -> None:
        if stream.written and b"Dockerfile" in data:
            raise LostConnection("the connection, or the command on it, went", where="gpu01")
        whole(stream, data)

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out="Successfully built 1\n")

    monkeypatch.setattr(FakeStream, "write", cut)
    called = call(project, "deploy", "--yes", prepare=prepare)
    assert (called.status, "gpu01: the build context was cut off" in called.err) == (69, True)
    assert [getattr(s, "name", "") for s in called.machines["gpu01"].streamed if s] == ["turn", "build base"]


def test_a_failing_line_of_ones_own_dockerfile_is_named(project: Path) -> None:
    folder = with_dockerfile(project)
    log = (
        "Step 3/3 : RUN false\n"
        + "".join(f"line {n}\n" for n in range(30))
        + "x returned a non-zero code: 1\n"
    )

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out=log, status=1)

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert called.status == 78
    assert called.err.endswith(f"orch: {folder}/Dockerfile:3: RUN false ended with status 1 on gpu01\n")
    assert "  | line 10\n" not in called.err
    kept = re.search(r"  \| all of it: (.*)\n", called.err)
    assert kept
    assert Path(kept.group(1)).read_text() == log


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (
            "manifest for debian:12 not found: manifest unknown",
            78,
            "Dockerfile:1: there is no image debian:12. Correct FROM",
        ),
        ("write /x: no space left on device", 1, "orch: gpu01: no space is left on the host ("),
        (
            "dial tcp: lookup registry-1.docker.io: no such host",
            1,
            "orch: gpu01: the host has no way out to the registry (",
        ),
    ],
)
def test_why_ones_own_base_cant_be_had(project: Path, said: str, status: int, words: str) -> None:
    folder = with_dockerfile(project)

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out=f"Step 1/3 : FROM debian:12\n{said}\n", status=1)

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert (called.status, words in called.err) == (status, True), called.err
    assert f"{folder}/Dockerfile:1" in called.err


def test_a_dry_run_shows_ones_own_dockerfile_and_context(project: Path) -> None:
    folder = with_dockerfile(project)
    called = call(project, "deploy", "--dry-run", "-v", prepare=answers())
    assert f"---- gpu01: {folder}/Dockerfile, built first\nFROM debian:12\nCOPY a /a\n" in called.out
    assert f"---- gpu01: {folder}, its build context (2 files, 45 B)\n" in called.out
    assert re.search(r"^f 0644 +10 a$", called.out, re.MULTILINE)
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"]


def test_an_id_names_an_image_that_is_there(project: Path) -> None:
    name = "sha256:" + "ab" * 32
    (project / "hosts.ini").write_text(f"gpu01\n[all:vars]\nperson=ana\nproject=mnist\nimage={name}\n")
    called = call(project, "deploy", "--yes", prepare=answers())
    assert called.status == 78
    assert f"hosts.ini:5: there is no image {name} on gpu01. See there: docker images" in called.err
    there = BASE.replace("tensorflow/tensorflow:2.9.3", name)
    called = call(project, "deploy", "--yes", prepare=answers(f"{DOCKER}\n{there}"))
    assert called.status == 0
    machine = called.machines["gpu01"]
    assert f"engine tag {name} orch/base:abababababab" in text_of(machine.streamed[1])
    assert b"FROM orch/base:abababababab\n" in bytes(machine.streams[1].written)
