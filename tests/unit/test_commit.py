"""What is known of the code beside its content."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.run.code.bundle import Bundle, Entry
from orchestrator.run.code.commit import Commit, commit_of
from orchestrator.run.code.unsent import unsent


def git(top: Path, *words: str) -> str:
    me = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    asked = subprocess.run(["git", "-C", str(top), *me, *words], capture_output=True, check=True)
    return asked.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_the_commit_its_branch_and_whether_files_differ(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == Commit(head, "main", False)
    (repository / "new file\nwith # branch.oid x").write_text("")
    assert commit_of(repository) == Commit(head, "main", True)
    git(repository, "clean", "-fq")
    (repository / "a").write_text("2")
    assert commit_of(repository) == Commit(head, "main", True)
    git(repository, "checkout", "-q", "--", "a")
    git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository) == Commit(head, None, False)


def test_no_commit_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert commit_of(tmp_path) is None


def test_words_that_name_what_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    top = tmp_path / "project"
    (top / "data").mkdir(parents=True)
    (top / "src").mkdir()
    for name in ("src/train.py", "big.npz", "data/x"):
        (top / name).write_text("")
    (tmp_path / "elsewhere.csv").write_text("")
    bundle = Bundle(top, (Entry("src/train.py", "file"),))
    absolute = f"{top}/src/train.py"
    words = ["python3", "src/train.py", "src", ".", "--big=big.npz", "x=data", "data/", "../elsewhere.csv"]
    words += [absolute, f"{tmp_path}/elsewhere.csv", "/bin/sh", "nothing", "--epochs=3", "a\0b", "", "-"]
    assert unsent(words, top, bundle) == [
        "big.npz",
        "data",
        "data/",
        "../elsewhere.csv",
        absolute,
        f"{tmp_path}/elsewhere.csv",
    ]
    assert unsent(["train.py", "../big.npz"], top / "src", bundle) == ["../big.npz"]


def test_a_top_behind_a_link_is_still_the_top(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_text("")
    os.symlink("real", tmp_path / "link")
    assert unsent(["a"], tmp_path / "link", Bundle(tmp_path / "link", (Entry("a", "file"),))) == []
