"""What differs between two runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.diff_text import MANY, difference_json, difference_lines
from orchestrator.files.listing import list_files
from orchestrator.run.code.bundle import Bundle, collect
from orchestrator.run.code.upload import upload
from orchestrator.run.explain.diff import Changes, Difference, Side, difference, listed, packages, sent
from orchestrator.run.explain.text_diff import LARGEST, code_diff
from tests.unit.here import Here

SIDE = Side(
    run="20261130-0214-nightly-7f3a",
    command=("python3", "train.py"),
    sub="",
    bundle="b1",
    env=("A",),
    image="tf:2.9.3",
    base="sha256:aaaaaaaa",
    orch_env="e1",
    packages={"wandb": "1"},
    gpus=1,
    settings={"shm_size": "1", "image": "1", "memory": "1"},
    files={},
)


def test_nothing_differs() -> None:
    found = difference(SIDE, replace(SIDE, run="another", commit="c"))
    assert not found
    assert difference_lines(found) == []


@pytest.mark.parametrize(
    ("after", "line"),
    [
        ({"command": ("python3", "x y.py")}, "command    - python3 train.py"),
        ({"env": ("A", "B")}, "env names  added B"),
        ({"env": ()}, "env names  removed A"),
        ({"packages": {"wandb": "2"}}, "packages   wandb 1 -> 2"),
        ({"packages": {}}, "packages   removed wandb"),
        ({"gpus": 4}, "GPUs       1 -> 4"),
        ({"gpus": None}, "GPUs       1 -> -"),
        ({"sub": "src"}, "folder     - -> src"),
        ({"image": "b:1"}, "image      tf:2.9.3 -> b:1"),
        (
            {"base": "sha256:bbbbbbbb", "orch_env": "e2"},
            "image      tf:2.9.3 (base aaaaaa) -> tf:2.9.3 (base bbbbbb)",
        ),
        (
            {"orch_env": "e2"},
            "image      tf:2.9.3 (build e1) -> tf:2.9.3 (build e2)",
        ),
        ({"settings": {"shm_size": "2", "image": "2", "new": "1"}}, "settings   shm_size"),
        ({"bundle": "b2", "files": None}, "code       another bundle; what it held is not known any more"),
    ],
)
def test_each_kind_is_a_line(after: dict[str, object], line: str) -> None:
    found = difference(SIDE, replace(SIDE, **after))  # type: ignore[arg-type]
    assert found
    assert difference_lines(found)[0] == line


def test_an_environment_that_said_less_is_not_called_another() -> None:
    older = replace(SIDE, base="", orch_env="", settings={})
    assert not difference(older, SIDE)
    assert not difference(SIDE, older)


def test_many_names_are_counted_where_there_is_one_line() -> None:
    names = tuple(f"f{n}.py" for n in range(MANY + 1))
    found = Difference(code=Changes(added=names, removed=("old.py",)))
    assert difference_lines(found) == ["code       added 9 files; removed old.py"]
    assert len(difference_lines(found, files=True)) == 10
    assert difference_json(found)["code"]["added"] == list(names)


def test_versions_of_packages() -> None:
    assert packages(["Foo_Bar==1.0", "x.y==2+cu11"]) == {"foo-bar": "1.0", "x-y": "2+cu11"}


def project(folder: Path, **files: str) -> Bundle:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return collect(folder, cache=folder.parent / "cache")


def test_a_host_lists_a_bundle_as_it_is_here(tmp_path: Path) -> None:
    """Names, sizes and times say the same as contents do: also of an edit that keeps the size."""
    before = project(tmp_path / "mnist", train="lr = 1\n", src__model="m\n", gone="x", tool="#!/bin/sh\n")
    machine = Here(tmp_path)
    upload(machine, "~/place", before)
    (tmp_path / "mnist" / "gone").unlink()
    (tmp_path / "mnist" / "tool").chmod(0o755)
    (tmp_path / "mnist" / "link").symlink_to("train")
    after = project(tmp_path / "mnist", train="lr = 2\n", new="ü")
    upload(machine, "~/place", after)
    place = tmp_path / "place" / "bundles"
    roots = list_files(machine, [(f"{place}/{b.digest}", None) for b in (before, after)]).roots
    on_host = [listed(root.items) for root in roots]
    assert on_host == [sent(before), sent(after)]
    old, new = (
        replace(SIDE, bundle=b.digest, files=f) for b, f in zip((before, after), on_host, strict=True)
    )
    found = difference(old, new).code
    assert found
    assert (found.added, found.removed) == (("link", "new"), ("gone",))
    assert [name for name, _, _ in found.changed] == ["tool", "train"]


def test_a_unified_diff_of_the_code(tmp_path: Path) -> None:
    large = "x" * (LARGEST + 1)
    before = project(
        tmp_path / "one", train="a\nb\n", data="\0one", gone="g\n", large=large, same="s", end="no end"
    )
    after = project(
        tmp_path / "two", train="a\nc\n", data="\0two", large=large + "y", same="s", end="no end\n"
    )
    (tmp_path / "two" / "same").chmod(0o755)
    (tmp_path / "two" / "link").symlink_to("train")
    after = collect(tmp_path / "two", cache=tmp_path / "cache")
    assert list(code_diff(before, after)) == [
        "Binary files a/data and b/data differ",
        "--- a/end",
        "+++ b/end",
        "@@ -1 +1 @@",
        "-no end\n\\ No newline at end of file",
        "+no end",
        "--- a/gone",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-g",
        "Binary files a/large and b/large differ",
        "--- /dev/null",
        "+++ b/link",
        "@@ -0,0 +1 @@",
        "+link to train",
        "same is executable",
        "--- a/train",
        "+++ b/train",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]
