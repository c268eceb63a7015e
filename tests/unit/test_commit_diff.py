"""The diff of the code that is sent against its commit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.run.code import commit_diff
from orchestrator.run.code.bundle import collect
from orchestrator.run.code.commit_diff import diff_of
from tests.unit.projects import OPENSSH, write_all
from tests.unit.test_commit import git


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A project below the top of its repository, with everything committed, secrets too."""
    top = tmp_path / "repository" / "project"
    odd = {"new\nline \"é'": "1\n", os.fsdecode(b"latin\xe9"): "1\n", "a b": "1\n"}
    write_all(top, {"train.py": "one\ntwo\n", "gone.py": "old\n", ".env": "TOKEN=1\n", "key.pem": OPENSSH})
    write_all(top, {**odd, "hosts.ini": "[all]\n", "big.csv": "1\n", ".orchignore": "big.csv\n"})
    write_all(top, {"../beside": "1\n", ".gitignore": "kept.npz\n"})
    git(top.parent, "init", "-q")
    git(top.parent, "add", "-f", ".")
    git(top.parent, "commit", "-q", "-m", "one")
    return top


def diff(top: Path) -> bytes:
    return diff_of(collect(top, cache=top.parent / "cache"))


def test_nothing_differs(top: Path) -> None:
    assert diff(top) == b""


def test_git_applies_it_to_the_commit(top: Path, tmp_path: Path) -> None:
    write_all(top, {"train.py": "one\nzwei\n", "new\nline \"é'": "2\n", os.fsdecode(b"latin\xe9"): "2\n"})
    write_all(top, {"a b": "2\n", "staged.py": "new\n"})
    git(top, "add", "staged.py")
    found = diff(top)
    git(top.parent, "clone", "-q", ".", str(tmp_path / "clone"))
    again = tmp_path / "clone" / "project"
    subprocess.run(["git", "-C", str(again), "apply", "--directory=project", "-"], input=found, check=True)
    for name in ("train.py", "new\nline \"é'", os.fsdecode(b"latin\xe9"), "a b", "staged.py"):
        assert (again / name).read_bytes() == (top / name).read_bytes()


def test_nothing_of_what_is_not_sent_is_in_it(top: Path) -> None:
    secret = "hush-hush\n"
    write_all(top, {".env": secret, "hosts.ini": secret, "key.pem": OPENSSH + secret, "big.csv": secret})
    write_all(top, {"../beside": secret, ".env.local": secret, "train.py": "one\n"})
    git(top, "add", "-f", ".env.local")
    (top / "gone.py").unlink()
    found = diff(top).decode()
    assert "hush" not in found
    assert "-two" in found
    assert "diff --git a/gone.py b/gone.py\ndeleted file" in found
    assert "old" not in found
    assert "beside" not in found
    assert ".env" not in found


def test_new_files_are_named_before_it(top: Path) -> None:
    write_all(top, {"b.py": "1", "odd\nname": "1", "cut.log": "1"})
    write_all(top, {".orchignore": "big.csv\n*.log\n!kept.npz\n", "kept.npz": "x"})
    git(top, "commit", "-qam", "two")
    assert diff(top).decode() == '# new, in no commit:\n#   b.py\n#   kept.npz\n#   "odd\\nname"\n'


def test_too_much_is_left_out_and_said(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_diff, "MOST", 1_000_000)
    write_all(top, {"train.py": "x\n" * 400_000, "b.py": "1"})
    assert diff(top) == b"# new, in no commit:\n#   b.py\n# left out: the diff is larger than 1 MB\n"
    write_all(top, {"train.py": "x\n" * 200_000})
    assert diff(top).count(b"\n+x") == 200_000


def test_a_person_s_own_settings_do_not_change_it(top: Path) -> None:
    write_all(top, {"train.py": "one\n"})
    plain = diff(top)
    settings = {
        "diff.noprefix": "true",
        "diff.external": "false",
        "color.ui": "always",
        "diff.mnemonicPrefix": "true",
        "core.quotePath": "false",
    }
    for name, value in settings.items():
        git(top, "config", name, value)
    assert diff(top) == plain


@pytest.mark.parametrize("without", ["program", "repository", "commit", "time"])
def test_no_git_is_no_error(top: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without: str) -> None:
    write_all(top, {"train.py": "one\n"})
    found = collect(top, cache=tmp_path / "cache")
    if without == "program":
        monkeypatch.setenv("PATH", "/nowhere")
    elif without == "time":
        (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(commit_diff, "PATIENCE", 0.1)
    else:
        shutil.rmtree(top.parent / ".git")
        if without == "commit":
            git(top.parent, "init", "-q")
    assert diff_of(found) == b""
