"""orch diff on folders of runs as hosts have them, through a real sh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.run.code.bundle import collect
from tests.cli.run_folders import RunFolders, state
from tests.cli.test_why import BAD, GOOD, with_a_failure

OTHER = "20261129-0300-nightly-0aaa"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolders:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return RunFolders(tmp_path)


def test_both_runs_beside_each_other(host: RunFolders) -> None:
    with_a_failure(host)
    for run, loss in ((GOOD, "0.21341"), (BAD, "0.5")):
        place = host.root("gpu01") / "ana/mnist/runs" / run / "gpu01"
        (place / "progress.jsonl").write_text(f'{{"epoch": 1}}\n{{"epoch": 31, "loss": {loss}, "time": 7}}\n')
    said = host("diff", GOOD, "nightly")
    assert said.out.splitlines() == [
        "       20261128-0214-nightly-aa01  20261129-0214-nightly-02be",
        "state  succeeded after 3 h         failed after 3 h",
        "cause                              exit 1",
        "where  gpu01                       gpu01",
        "epoch  31                          31",
        "loss   0.2134                      0.5",
        "",
        "code       changed  train.py",
        "           added    model.py",
        "           removed  old.py",
        "packages   albumentations 1.3.0 -> 1.4.0",
        "image      old:1 -> new:1",
        "folder     src -> -",
        "GPUs       1 -> 2",
        "settings   shm_size",
        "env names  added WANDB_API_KEY",
        "command    - python3 train.py --epochs=50",
        "           + python3 train.py --epochs=100",
    ]


def test_runs_on_two_hosts(host: RunFolders) -> None:
    done = state("succeeded", {"kind": "exit", "code": 0}, began=60, ended=10, exit_code=0)
    host.add(GOOD, done, bundle="1" * 64, files={"train.py": "a"}, log="Epoch 2/2\n")
    host.add(OTHER, done, bundle="2" * 64, files={"train.py": "b"}, host="gpu02", name="other")
    said = host("diff", GOOD, OTHER)
    assert "where     gpu01                       gpu02\n" in said.out
    assert "progress  epoch 2/2" in said.out
    same = "the same   packages, image, folder, GPUs, settings, env names, command"
    assert said.out.endswith(f"\n\ncode       changed  train.py\n{same}\n")


def test_verbose_shows_the_code_itself_from_hosts_and_from_what_is_kept(host: RunFolders) -> None:
    done = state("succeeded", {"kind": "exit", "code": 0}, began=60, ended=10, exit_code=0)
    bundles = []
    for run, name, content in ((GOOD, "gpu01", "lr = 1\n"), (OTHER, "gpu02", "lr = 2\n")):
        folder = host.folder / f"code-{name}"
        folder.mkdir()
        (folder / "train.py").write_text(content)
        bundles.append(collect(folder, cache=host.folder / "cache"))
        host.add(run, done, host=name, bundle=bundles[-1].digest, files={"train.py": content})
    said = host("diff", "-v", GOOD, OTHER)
    code = "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-lr = 1\n+lr = 2\n"
    assert said.out.endswith(f"\n\n{code}")
    for name, bundle in zip(("gpu01", "gpu02"), bundles, strict=True):  # now they are kept here
        (host.root(name) / "ana/mnist/bundles" / bundle.digest / "train.py").unlink()
    again = host("diff", "-v", GOOD, OTHER)
    assert again.out == said.out
    assert not [s for m in again.machines.values() for s in m.ran if s.name == "list"]


def test_a_long_cause_makes_no_wide_row(host: RunFolders) -> None:
    with_a_failure(host)
    path = host.root("gpu01") / "ana/mnist/runs" / BAD / "gpu01/state.json"
    found = json.loads(path.read_text())
    found["cause"] = {"kind": "exit", "code": 1, "exception": "ValueError: " + "shape (3, 4) " * 40}
    path.write_text(json.dumps(found) + "\n")
    assert max(map(len, host("diff", GOOD, BAD).out.splitlines())) < 100
    (row,) = (line for line in host("ps", "-a").out.splitlines() if BAD in line)
    assert row.endswith("shape (3,~")
    assert len(row) < 180
    assert "shape (3, 4) " * 20 in host("why", BAD).out.replace("\n", " ")


def test_one_run_is_not_compared_with_itself(host: RunFolders) -> None:
    with_a_failure(host)
    said = host("diff", "nightly", BAD, code=2)
    assert said.err == f"orch: 'nightly' and '{BAD}' are one run, {BAD}. See: orch ps -a\n"


def test_a_run_that_is_not_there(host: RunFolders) -> None:
    with_a_failure(host)
    assert host("diff", "nightly", "weekly", code=2).err.startswith("orch: no run 'weekly' on gpu01, gpu02")
