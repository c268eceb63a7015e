"""orch image ls and prune on machines that only pretend."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.image.images import freed, own_images
from orchestrator.facts.images import parse
from orchestrator.facts.question import Section
from orchestrator.hosts.fake import FakeMachine, text_of
from tests.cli.calling import call
from tests.cli.test_deploy import DOCKER

BASE, SSHD, PIP, OTHER = "sha256:0base", "sha256:1sshd", "sha256:2pip", "sha256:3other"


def image(name: str, layers: list[str], mega: int, person: str = "ana", **labels: str) -> dict[str, Any]:
    whose = json.dumps({"person": person, "project": "mnist", "folder": "x:/y"})
    known = {"orch.recipe": "1", "orch.image": whose} if name.startswith("orch/") and not labels else labels
    return {
        "id": f"sha256:id-{name}",
        "tags": [name] if name else [],
        "size": mega * 1_000_000,
        "created": "2026-11-30T02:14:07.123456789Z",
        "labels": known or None,
        "layers": " ".join(layers),
    }


BUILT_FIRST = {"orch.source": "2", "orch.image": '{"person": "ana", "project": "mnist"}'}
IMAGES = [
    image("tf:1", [BASE], 1000),
    image("", [BASE, SSHD], 1050),  # a step of the others
    image("orch/ana-mnist:used", [BASE, SSHD], 1050),
    image("orch/ana-mnist:idle", [BASE, SSHD, PIP], 1090),
    image("orch/ana-mnist-base:1", [BASE, OTHER], 1007, **BUILT_FIRST),
    image("orch/bob-mnist:1", [BASE, SSHD, OTHER], 1060, "bob"),
    image("orch/old:1", [BASE, PIP], 2000, **{"orch.recipe": "1"}),
]  # fmt: skip


def answer(*images: dict[str, Any], **containers: str) -> str:
    lines = [f"image\t{json.dumps(i)}" for i in images]
    lines += [f"listed\t{i['id']}" for i in images if i["tags"]]
    lines += [f'container\t{{"name": "/{n}", "image": "sha256:id-{i}"}}' for n, i in containers.items()]
    return "\n".join(lines)


FOUND = answer(*IMAGES, one="orch/ana-mnist:used", two="tf:1")


def prepare(said: str = "") -> Callable[[FakeMachine], None]:
    def give(machine: FakeMachine) -> None:
        machine.answer_facts(docker=DOCKER, images=FOUND)
        machine.answer("image rm", out=said)
        machine.answer("places", out="/home/ana/.orch/ana/mnist\n")
        machine.answer("turn", out="yours\n")

    return give


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\n[all:vars]\nperson=ana\nproject=mnist\n")
    return tmp_path


def listed(out: str) -> list[tuple[str, ...]]:
    return [tuple(re.split(r"  +", line.strip())) for line in out.splitlines()]


def test_ls_lists_ones_own_images_and_who_uses_them(project: Path) -> None:
    called = call(project, "image", "ls", prepare=prepare())
    head, *rows = listed(called.out)
    assert head == ("IMAGE", "WHERE", "SIZE", "AGE", "WHO", "PROJECT", "USED BY")
    assert [(r[0], r[2], r[4], r[-1]) for r in rows] == [
        ("orch/ana-mnist-base:1", "1.0 GB", "ana", "-"),
        ("orch/ana-mnist:idle", "1.1 GB", "ana", "-"),
        ("orch/ana-mnist:used", "1.1 GB", "ana", "one"),
    ]
    everyone = listed(call(project, "image", "ls", "-A", prepare=prepare()).out)
    assert [(r[0], r[4]) for r in everyone[-2:]] == [("orch/bob-mnist:1", "bob"), ("orch/old:1", "-")]
    none = call(project, "image", "ls", prepare=lambda m: m.answer_facts(docker=DOCKER, images=""))
    assert (none.status, none.err) == (0, "no images of yours (everybody's: orch image ls -A)\n")


def test_prune_removes_ones_own_that_nobody_uses_and_says_what_it_frees(project: Path) -> None:
    asked = call(project, "image", "prune", prepare=prepare())
    assert (asked.status, len(asked.machines["gpu01"].ran)) == (2, 1)
    assert asked.err.startswith("gpu01   frees about 47 MB\n")
    called = call(project, "image", "prune", "--yes", prepare=prepare())
    assert (called.status, called.out) == (0, "gpu01   removed 2 images, about 47 MB\n")
    script = text_of(called.machines["gpu01"].ran[-1])
    names = re.findall(r"^remove (\S+) \S+ (\S+)$", script, re.MULTILINE)
    assert names == [
        ("orch/ana-mnist:idle",) * 2,
        ("orch/ana-mnist-base:1",) * 2,
    ]  # what is on top goes first
    assert "-f" not in script.split()


def test_prune_takes_the_turns_of_its_projects(project: Path) -> None:
    """Else it removes what a deploy has just built."""
    called = call(project, "image", "prune", "--yes", prepare=prepare())
    turns = [text_of(s) for s in called.machines["gpu01"].streamed]
    assert [re.findall(r'^lock="\$here"/(\S+)', t, re.MULTILINE)[0] for t in turns] == [".build", ".turn"]
    assert all("place=/home/ana/.orch/ana/mnist\n" in t and "'prune by " in t for t in turns)

    def taken(machine: FakeMachine) -> None:
        prepare()(machine)
        machine.answer("turn", out="taken deploy by ana@laptop (begun 3 s ago)\n")

    busy = call(project, "image", "prune", "--yes", prepare=taken)
    assert (busy.status, busy.out) == (75, "")
    assert "orch: gpu01: a deploy by ana@laptop (begun 3 s ago) is going on." in busy.err


def test_what_the_engine_keeps_is_said(project: Path) -> None:
    kept = "kept orch/ana-mnist:idle: Error: conflict: container 12ab is using it\n"
    called = call(project, "image", "prune", "--yes", prepare=prepare(kept))
    assert (
        "warning: gpu01: kept orch/ana-mnist:idle: Error: conflict: container 12ab is using it" in called.err
    )
    assert called.out == "gpu01   removed 1 image, about 7.0 MB\n"


def test_nothing_to_remove_is_no_failure(project: Path) -> None:
    called = call(project, "image", "prune", prepare=lambda m: m.answer_facts(docker=DOCKER, images=""))
    assert (called.status, called.out) == (0, "gpu01   nothing to remove\n")


def test_an_engine_that_cant_be_used_is_told(project: Path) -> None:
    called = call(
        project, "image", "ls", prepare=lambda m: m.answer_facts(docker="missing\tdocker", images="")
    )
    assert (called.status, "docker is not installed" in called.err) == (1, True)


def test_what_is_built_on_an_image_needs_it() -> None:
    mine = image("mine:1", [BASE, SSHD, PIP, OTHER], 2000)
    text = answer(*IMAGES, mine, top="orch/bob-mnist:1", plain="mine:1")
    found = own_images(parse(Section(text, 0)))
    users = {own.name: own.containers for own in found.own}
    assert users["orch/ana-mnist:used"] == ("plain", "top")
    assert users["orch/ana-mnist:idle"] == ("plain",)


def test_a_tag_of_ones_own_keeps_the_bytes() -> None:
    kept = {**IMAGES[3], "tags": ["orch/ana-mnist:idle", "mine:1"]}
    found = own_images(parse(Section(answer(IMAGES[0], kept), 0)))
    assert freed(found, found.own) == 0
    found = own_images(parse(Section(answer(IMAGES[0], IMAGES[2], IMAGES[3]), 0)))
    assert freed(found, found.own) == 90_000_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpu01"], "FROM and TO are missing. As in: orch image copy gpu01 gpu02"),
        (["gpu01", "gpu01"], "gpu01 is FROM and TO"),
        (["tf:1", "gpu01", "gpu01"], "gpu01 is FROM and TO"),
        (["gpu01", "x.tar.gz"], "x.tar.gz: a file is written and read as .tar. Pack it afterwards."),
        (["gone.tar", "gpu01"], "gone.tar: no such file or directory"),
        (["gpu01", "a.tar", "a.tar"], "a.tar is named twice"),
        (["gpu01", "a.tar", "b.tar", "b.tar"], "b.tar is named twice"),
        (["all", "x.tar"], "all is 2 hosts, and one is copied from. Name one."),
        (["tf:1", "gpu01", "gpu[01-02]"], "gpu01 is FROM and TO"),
        (["tf:2", "gpu01", "gpu02"], "there is no image tf:2 on gpu01. See there: docker image ls"),
        (["tf:1", "gpu01", "x.tar", "--direct"], "--direct is from host to host, and x.tar is here."),
    ],
)
def test_what_can_not_be_copied_is_said(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    called = call(tmp_path, "image", "copy", *words, prepare=copying)
    assert (called.status, called.out) == (2, "")
    assert said in called.err


def copying(machine: FakeMachine) -> None:
    machine.answer_facts(docker=DOCKER, images=FOUND, copying="account\tana\nprogram\tgzip")


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({}, 0, "gpu02   tf:1   has it already\n"),
        (
            {"config": [["A=1"]]},
            1,
            "orch: gpu02: another image is called tf:1 here (id-tf:1). Take the name from it",
        ),
        (
            {"tags": ["other:1"], "layers": "x", "arch": "arm64"},
            1,
            "orch: gpu02: no room for tf:1: it takes 2.0 TB",
        ),
    ],
)
def test_what_a_host_needs_is_seen_before_anything_is_sent(
    tmp_path: Path, changed: dict[str, Any], status: int, said: str
) -> None:
    huge = {**IMAGES[0], "size": 10**12}

    def prepare(machine: FakeMachine) -> None:
        there = huge if machine.host.name == "gpu01" else {**huge, **changed}
        docker = f"{DOCKER}\ndisk\t/var/lib/docker\t900000000\t500000000\t-"
        machine.answer_facts(docker=docker, images=answer(there), copying="account\tana\nprogram\tgzip")

    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    called = call(tmp_path, "image", "copy", "tf:1", "gpu01", "gpu02", prepare=prepare)
    assert (called.status, said in called.out + called.err) == (status, True), called.err
    assert not called.machines["gpu01"].streamed


def test_an_image_of_another_processor_is_not_sent(tmp_path: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        there = answer({**IMAGES[0], "arch": "arm64"}) if machine.host.name == "gpu01" else ""
        machine.answer_facts(docker=DOCKER, images=there, copying="account\tana")

    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    called = call(tmp_path, "image", "copy", "tf:1", "gpu01", "gpu02", prepare=prepare)
    assert (called.status, called.err) == (1, "orch: gpu02: tf:1 is for arm64, and this machine is amd64\n")
