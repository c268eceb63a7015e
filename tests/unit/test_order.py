"""From what a person asks to an order for a launch."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError, UsageError
from orchestrator.inventory import Host, Settings
from orchestrator.run.code.bundle import Bundle, collect
from orchestrator.run.launch import launch_line, script
from orchestrator.run.order import (
    TRAINER,
    Naming,
    Wishes,
    environment,
    git_of,
    make_order,
    trainer_bundle,
    wanted_gpus,
)
from orchestrator.run.spec import RunSpec

HOST = Host("gpu01", "gpu01", settings=Settings(person="ana", project="mnist"))


@pytest.mark.parametrize(
    ("count", "ids", "wish"),
    [
        ("", None, ""),
        ("2", None, "2"),
        ("all", None, "all"),
        ("none", None, "none"),
        ("0", None, "none"),
        ("", "0,2", "ids:0,2"),
        ("", "GPU-1a-2b, 3", "ids:GPU-1a-2b,3"),
    ],
)
def test_gpus_asked(count: str, ids: str | None, wish: str) -> None:
    assert wanted_gpus(count, ids) == wish


@pytest.mark.parametrize(
    ("count", "ids"),
    [("two", None), ("-1", None), ("1.5", None), ("", "0,,2"), ("", "x"), ("", ""), ("1", "0")],
)
def test_gpus_that_make_no_sense(count: str, ids: str | None) -> None:
    with pytest.raises(UsageError):
        wanted_gpus(count, ids)


def test_variables() -> None:
    here = {"TOKEN": "t", "EMPTY": ""}
    assert environment(HOST, ["A=1=2", "TOKEN", "EMPTY", "B="], here) == {
        "A": "1=2",
        "TOKEN": "t",
        "EMPTY": "",
        "B": "",
    }
    for bad in ("MISSING", "1A=2", "A B=1", "=1"):
        with pytest.raises(UsageError):
            environment(HOST, [bad], here)


def test_secrets_come_from_here_or_the_run_does_not_start() -> None:
    host = Host("gpu01", "gpu01", settings=Settings(secret=("TOKEN",)), sources={"secret": "hosts.ini:4"})
    assert environment(host, [], {"TOKEN": "t"}) == {"TOKEN": "t"}
    with pytest.raises(ConfigError, match=r"hosts\.ini:4: secret TOKEN is not set here"):
        environment(host, [], {})


def test_variables_of_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.env", tmp_path / "two.env"
    one.write_bytes(b"\xef\xbb\xbf# keys\r\nA= 1 \r\n\n  Q='x y'\nTOKEN\nAWAY\nF=a\x0cb\n")
    two.write_text("A=2\nB=3\n")
    found = environment(HOST, ["B=4"], {"TOKEN": "t"}, [one])
    assert found == {"A": " 1 ", "Q": "'x y'", "TOKEN": "t", "F": "a\x0cb", "B": "4"}
    assert environment(HOST, [], {}, [one, two])["A"] == "2"
    secret = Host("gpu01", "gpu01", settings=Settings(secret=("B",)))
    assert environment(secret, [], {"B": "of here"}, [two])["B"] == "3"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"A=1\nB C=2\n", "x.env:2: expected NAME=VALUE"),
        (b"export A=1\n", "x.env:1: expected NAME=VALUE"),
        (b"A=\xff\n", "x.env: no UTF-8 text"),
        (None, "x.env: no such file or directory"),
    ],
)
def test_a_file_of_variables_that_makes_no_sense(content: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.env"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as told:
        environment(HOST, [], {}, [file])
    assert str(told.value) == f"{tmp_path}/{said}"


def test_an_order_runs_where_the_caller_stands(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "src" / "deep"
    inner.mkdir(parents=True)
    (inner / "train.py").write_text("print(1)\n")
    order = make_order(
        HOST,
        ["python3", "train.py"],
        Wishes(Naming("nightly", note="try it", tags=("sweep",)), {"B": "2", "A": "1"}),
        bundle=collect(tmp_path),
        cwd=inner,
    )
    spec = order.spec
    assert (spec.sub, spec.env, spec.person, spec.project) == ("src/deep", ("A", "B"), "ana", "mnist")
    assert order.place == "~/.orch/ana/mnist"
    assert RunSpec.parse(json.loads(spec.text())) == spec
    text = script(order, "gpu01").text
    assert 'place="$HOME"/.orch/ana/mnist' in text
    assert launch_line(spec) == (
        'nohup setsid flock -w 10 "$ORCH_WORKER_DIR/lock" python3 "$ORCH_WORKER_DIR/supervise.py" '
        f"--person ana --run {spec.run} -- python3 train.py "
        '>> "$ORCH_WORKER_DIR/training.log" 2>&1 < /dev/null'
    )


def test_the_trainer_comes_along_whole() -> None:
    bundle = trainer_bundle()
    assert bundle.holds("trainer/__main__.py")
    assert not [e.path for e in bundle.entries if "__pycache__" in e.path]
    assert sum(len(piece) for piece in bundle.tar()) > bundle.size
    assert TRAINER[-1] == "trainer"


def test_the_trainers_code_lies_nowhere_else_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orch that is killed leaves no copy of it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bundle = trainer_bundle()
    assert list(tmp_path.iterdir()) == []
    assert bundle.digest == collect(copied(bundle, tmp_path / "code"), cache=tmp_path / "cache").digest


def copied(bundle: Bundle, to: Path) -> Path:
    for entry in bundle.entries:
        (to / entry.path).parent.mkdir(parents=True, exist_ok=True)
        (to / entry.path).write_bytes(b"".join(bundle.content(entry)))
        (to / entry.path).chmod(0o755 if entry.executable else 0o644)
    return to


def test_a_spec_of_a_newer_orch_is_read() -> None:
    spec = RunSpec("20261130-0214-run-0001", ("a",), ("h",), "ana", "p", "b")
    assert RunSpec.parse({**json.loads(spec.text()), "news": 1}) == spec
    with pytest.raises(ValueError, match="not a run's spec"):
        RunSpec.parse({"argv": ["a"]})


def test_what_is_said_of_a_run_stands_in_its_spec_and_an_older_spec_is_read() -> None:
    spec = RunSpec("20261130-0214-run-0001", ("a",), ("h",), "ana", "p", "b", note="n", tags=("t",))
    assert RunSpec.parse(json.loads(spec.text())) == spec
    news = ("timeout", "note", "tags", "parent", "orch_env", "image", "packages")
    older = {k: v for k, v in json.loads(spec.text()).items() if k not in news}
    assert RunSpec.parse(older) == RunSpec("20261130-0214-run-0001", ("a",), ("h",), "ana", "p", "b")


@pytest.mark.parametrize(
    "wrong", [{"note": "two\nlines"}, {"note": "x" * 501}, {"tags": ("a b",)}, {"tags": ("",)}]
)
def test_notes_and_tags_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"--{'note' if 'note' in wrong else 'tag'}"):
        Naming(**wrong)


def test_a_dirty_working_tree_comes_along_as_a_diff(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path))
        subprocess.run(["git", *own, *words], check=True, capture_output=True)

    (tmp_path / "train.py").write_text("print('ü')\n", encoding="utf-8")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert git_of(tmp_path, collect(tmp_path))[0]["diff"] == ""
    (tmp_path / "train.py").write_text("print('ö')\n", encoding="utf-8")
    told, diff = git_of(tmp_path, collect(tmp_path))
    assert "+print('ö')\n" in diff
    assert told["dirty"]
    assert told["diff"] == hashlib.sha256(diff.encode("utf-8", "surrogateescape")).hexdigest()
    assert git_of(tmp_path / "..", collect(tmp_path)) == ({}, "")
