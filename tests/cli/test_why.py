"""orch why on folders of runs as hosts have them, through a real sh."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from orchestrator.errors import Unreachable
from tests.cli.run_folders import NOW, RunFolders, state

GOOD, BAD = "20261128-0214-nightly-aa01", "20261129-0214-nightly-02be"
HOUR = 3600.0
GIB = 2**30
END = {
    "memory_total": 256 * GIB,
    "memory_available": 2 * GIB,
    "memory_limit": 64 * GIB,
    "memory_used": 63 * GIB,
    "disk_free": 612 * 10**9,
    "disk_total": 10**12,
    "gpus": [
        {
            "uuid": "GPU-a0",
            "memory_used": 38 * GIB,
            "memory_total": 40 * GIB,
            "temperature": 64,
            "fault": None,
        },
        {"uuid": "GPU-a1", "memory_used": None, "memory_total": None, "fault": "GPU is lost"},
        {"uuid": "GPU-not-its", "memory_used": 0, "memory_total": 40 * GIB},
    ],
    "gpu_processes": [{"uuid": "GPU-a0", "pid": 3, "memory": 30 * GIB, "name": "python3"}],
}
SMI = {
    "query-gpu": "0, GPU-a0, NVIDIA A100, 535.183.01, 40960, 11264, 0, 31, 52.1, Disabled\n",
    "query-compute": "GPU-a0, 999999, python3, 11000\n",
}
OOM = "ResourceExhaustedError: OOM when allocating tensor with shape[4096,4096]"
LOG = (
    "nohup: ignoring input\n"
    + "".join(f"Epoch {n}/100\n{n}/45 [=>...] - loss: 0.3\n" for n in range(1, 32))
    + f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n{OOM}\n\n'
)


@pytest.fixture
def host(tmp_path: Path) -> RunFolders:
    return RunFolders(tmp_path)


def with_a_failure(host: RunFolders) -> None:
    host.add(
        GOOD,
        state("succeeded", {"kind": "exit", "code": 0}, began=30 * HOUR, ended=27 * HOUR, exit_code=0),
        bundle="1" * 64,
        files={"train.py": "a", "old.py": "x", "same.py": "s"},
        argv=["python3", "train.py", "--epochs=50"],
        packages=["albumentations==1.3.0"],
        environment={"settings": {"shm_size": "a", "memory": "a", "image": "a"}, "image": "old:1"},
        sub="src",
        gpus=("GPU-a0",),
    )
    host.add(
        BAD,
        state("failed", {"kind": "exit", "code": 1}, began=5 * HOUR, ended=2 * HOUR, exit_code=1),
        bundle="2" * 64,
        files={"train.py": "b", "model.py": "x", "same.py": "s"},
        argv=["python3", "train.py", "--epochs=100"],
        packages=["albumentations==1.4.0"],
        env=["WANDB_API_KEY"],
        environment={"settings": {"shm_size": "b", "memory": "a", "image": "b"}, "image": "new:1"},
        log=LOG,
        end=END,
    )
    ended = {"began": 6 * HOUR, "ended": 3 * HOUR}
    host.add("20261129-0100-speech-77aa", state("succeeded", **ended), person="bob", gpus=("GPU-a0",))
    host.add("20261129-0100-other-77ab", state("succeeded", **ended), person="bob", gpus=("GPU-b9",))
    before = {"began": 9 * HOUR, "ended": 6 * HOUR}
    host.add("20261129-0100-old-77ac", state("failed", **before), person="bob", gpus=("GPU-a0",))
    host.smi = SMI


def test_one_screen(host: RunFolders) -> None:
    with_a_failure(host)
    said = host("why")
    assert [line for line in said.out.splitlines() if not re.search(" (memory|disk) [0-9o]", line)] == [
        f"{BAD}   failed on gpu01, GPUs 0-1, after 3 h, 2 h ago",
        "  cause       exit 1",
        f"  exception   {OOM}",
        "  likely      the GPU ran out of memory",
        "              A smaller batch, or a GPU that nobody else uses: orch gpu-status",
        "  command     python3 train.py --epochs=100",
        "  progress    epoch 31/100  step 31/45  loss 0.3",
        "  last lines  | 28/45 [=>...] - loss: 0.3",
        "              | Epoch 29/100",
        "              | 29/45 [=>...] - loss: 0.3",
        "              | Epoch 30/100",
        "              | 30/45 [=>...] - loss: 0.3",
        "              | Epoch 31/100",
        "              | 31/45 [=>...] - loss: 0.3",
        "              | Traceback (most recent call last):",
        '              |   File "train.py", line 3, in <module>',
        f"              | {OOM}",
        "  at the end  GPU 0   38/40 GB   64 C   python3 30 GB",
        "              GPU 1   fault: GPU is lost",
        "  beside it   bob: 20261129-0100-speech-77aa, GPU 0, for 2 h",
        "  now         GPU 0   11/40 GB   python3 (outside orch) 10.7 GB",
        "              GPU 1   is not there any more",
        f"  changed     since {GOOD}, which succeeded:",
        "              code       changed train.py; added model.py; removed old.py",
        "              packages   albumentations 1.3.0 -> 1.4.0",
        "              image      old:1 -> new:1",
        "              folder     src -> -",
        "              GPUs       1 -> 2",
        "              settings   shm_size",
        "              env names  added WANDB_API_KEY",
        "              command    - python3 train.py --epochs=50",
        "                         + python3 train.py --epochs=100",
        "next:   orch resume nightly      orch rerun nightly      orch why nightly --bundle why.tar.gz",
    ]
    assert "              memory 2.1 GB of 275 GB free\n" in said.out
    assert "              memory of its container: 68 GB of 69 GB used\n" in said.out
    assert "              disk 612 GB of 1.0 TB free\n" in said.out
    assert said.err == ""
    execs = {name: len(machine.ran) for name, machine in said.machines.items()}
    assert execs == {"gpu01": 3, "gpu02": 1}, "to find it, to look at it, and to list code that is another"


def test_the_same_code_is_not_listed(host: RunFolders) -> None:
    host.add(GOOD, state("succeeded", began=9 * HOUR, ended=8 * HOUR, exit_code=0))
    host.add(BAD, state("failed", {"kind": "exit", "code": 3}, began=5 * HOUR, ended=2 * HOUR, exit_code=3))
    said = host("why", "nightly")
    assert f"changed     since {GOOD}, which succeeded:\n              nothing that is recorded\n" in said.out
    assert len(said.machines["gpu01"].ran) == 2


def test_only_a_run_of_the_same_name_that_went_well_before_counts_as_good(host: RunFolders) -> None:
    host.add("20261127-0214-nightly-aa01", state("failed", began=40 * HOUR, ended=39 * HOUR, exit_code=1))
    done = state("succeeded", began=40 * HOUR, ended=39 * HOUR, exit_code=0)
    host.add("20261127-0214-my-nightly-aa02", done, name="my-nightly")
    host.add("20261127-0214-nightly-aa03", done, name="Nightly")
    host.add("20261127-0214-nightly-aa04", done, person="bob")
    later = state("succeeded", began=1 * HOUR, ended=0.5 * HOUR, exit_code=0)
    host.add("20261130-0214-nightly-aa05", later)
    host.add(BAD, state("failed", {"kind": "exit", "code": 3}, began=5 * HOUR, ended=2 * HOUR, exit_code=3))
    said = host("why", BAD)
    assert "changed" not in said.out
    assert f"orch rerun {BAD}" in said.out, "the name means a newer run"


@pytest.mark.parametrize(
    ("more", "cause", "basis"),
    [
        ({"boot_id": "another"}, "host rebooted", "boot id"),
        ({}, "supervisor gone", "its lock"),
    ],
)
def test_an_end_that_nobody_recorded(host: RunFolders, more: dict[str, str], cause: str, basis: str) -> None:
    host.add(BAD, state("running", began=5 * HOUR, **more), log="Epoch 3/9\n")
    said = host("why").out
    head = rf"{BAD}   lost on gpu01, GPUs 0-1, last seen \d+ (s|min) ago\n  cause       {cause}\n"
    assert re.match(head, said), said
    assert "inferred    from " in said
    assert basis in said.splitlines()[2]
    assert said.endswith("next:   orch resume nightly      orch rerun nightly      orch ps\n")


def test_a_script_that_was_not_sent(host: RunFolders) -> None:
    log = "python3: can't open file '/orch/work/trian.py': [Errno 2] No such file or directory\n"
    host.add(BAD, state("failed", {"kind": "exit", "code": 2}, began=60, ended=30, exit_code=2), log=log)
    said = host("why").out
    assert f"See what was: orch ls {BAD}\n" in said
    assert "progress" not in said, "the log's last line is shown below"


def test_a_run_that_goes_on_in_another_leads_there(host: RunFolders) -> None:
    worker = host.add(
        BAD, state("stopped", {"kind": "stopped", "by": "bob"}, began=HOUR, ended=60, exit_code=0)
    )
    (worker.parent / "continued_by").write_text("20261130-0214-nightly-03be\ngpu02\n")
    said = host("why").out
    assert "continued   by 20261130-0214-nightly-03be\n" in said
    assert "next:   orch why 20261130-0214-nightly-03be" in said


def test_what_was_said_of_a_run_is_told(host: RunFolders) -> None:
    more = {"note": "a try", "tags": ["sweep", "lr=3"], "parent": {"run": GOOD, "kind": "rerun"}}
    host.add(BAD, state("failed", {"kind": "exit", "code": 1}, began=HOUR, ended=60, exit_code=1), **more)
    said = host("why").out
    assert "  note        a try\n  tags        sweep  lr=3\n" in said
    assert f"  rerun       of {GOOD}\n" in said
    (row,) = json.loads(host("why", "--json").out)["rows"]
    assert (row["note"], row["tags"], row["parent"]) == ("a try", ["sweep", "lr=3"], GOOD)


def test_a_run_that_lives_says_so(host: RunFolders) -> None:
    import fcntl

    worker = host.add(
        BAD, state("running", began=5 * HOUR), log="Epoch 3/9\n" + "x" * 40_000 + "\nEpoch 4/9\n"
    )
    with (worker / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = host("why").out
    assert said.startswith(f"{BAD}   running on gpu01, GPUs 0-1, for 5 h\n")
    assert "  progress    epoch 4/9\n" in said
    assert "              | Epoch 4/9\n" in said
    assert "changed" not in said
    assert said.splitlines()[-1].startswith("next:   orch tail nightly      orch stop nightly")


def test_no_lines_and_more_lines(host: RunFolders) -> None:
    with_a_failure(host)
    assert "last lines" not in host("why", "-n", "0").out
    assert "| Epoch 12/100" in host("why", "-n", "50").out


def test_the_first_of_several_workers_to_fail_is_in_front(host: RunFolders) -> None:
    both = {"hosts": ["gpu01", "gpu02"]}
    first = state(
        "failed", {"kind": "signal", "signal": 11}, began=HOUR, ended=100, exit_code=None, signal=11
    )
    host.add(BAD, state("failed", {"kind": "exit", "code": 1}, began=HOUR, ended=88, exit_code=1), **both)
    host.add(BAD, first, host="gpu02", log="it begins here\n", **both)
    said = host("why").out
    assert said.startswith(f"{BAD}   failed on gpu02, GPUs 0-1")
    assert "| it begins here" in said
    assert re.search(r"  others      gpu01 failed 1[1-3] s later: exit 1\n", said)  # two clocks, in seconds


def test_a_worker_whose_host_is_away_is_told(host: RunFolders) -> None:
    host.add(BAD, state("running", began=HOUR, boot_id="another"), hosts=["gpu01", "gpu02"])
    host.silent = {"gpu02": Unreachable("connection timed out after 10 s", where="gpu02")}
    said = host("why", code=1)
    assert "  others      gpu02 does not answer\n" in said.out
    assert said.err == "orch: gpu02: connection timed out after 10 s\n"


def test_a_host_that_is_away_is_no_verdict(host: RunFolders) -> None:
    host.silent = {"gpu01": Unreachable("connection timed out after 10 s", where="gpu01")}
    said = host("why", "--hosts", "gpu01", "nightly", code=69)
    assert said.out == ""
    assert said.err.startswith("orch: gpu01: connection timed out after 10 s. ")
    assert "orch rerun nightly --hosts " in said.err


def test_json(host: RunFolders) -> None:
    with_a_failure(host)
    found = json.loads(host("why", "--json").out)
    (row,) = found["rows"]
    (worker,) = row["workers"]
    assert (found["version"], found["listing"], row["run"], row["first"]) == (1, "why", BAD, "gpu01")
    assert (row["state"], row["cause"], worker["exception"]) == ("failed", "exit 1", OOM)
    assert worker["hint"]["name"] == "GPU memory"
    assert worker["log"][-1] == OOM
    assert worker["log_size"] == len(LOG)
    assert (worker["end"]["memory_used"], worker["end"]["max_rss"]) == (63 * GIB, None)
    assert [other["run"] for other in worker["beside"]] == ["20261129-0100-speech-77aa"]
    assert worker["now"]["gpus"][0]["who"] == "python3 (outside orch)"
    assert row["changed"]["against"] == GOOD
    assert row["changed"]["code"] == {"added": ["model.py"], "removed": ["old.py"], "changed": ["train.py"]}
    assert row["changed"]["packages"]["changed"] == [
        {"name": "albumentations", "before": "1.3.0", "after": "1.4.0"}
    ]
    assert abs(worker["ended"] - (NOW - 2 * HOUR)) < 1


def test_a_record_without_anything_more_is_no_crash(host: RunFolders) -> None:
    odd = {"gpus": [None, {"uuid": "GPU-a0", "memory_total": "?"}], "memory_total": "?", "disk_free": "?"}
    worker = host.add(BAD, {"state": "failed"}, end=odd)
    (worker / "training.log").unlink()
    (worker / "lock").unlink()
    assert host("why").out.startswith(f"{BAD}   ")


# --bundle


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        assert {m.mode for m in members} == {0o600}
        return {m.name: archive.extractfile(m).read().decode() for m in members}  # type: ignore[union-attr]


def test_everything_in_one_file_without_secrets(host: RunFolders, tmp_path: Path) -> None:
    with_a_failure(host)
    (tmp_path / "keys.env").write_text("WANDB=from-the-file\n")
    with (tmp_path / "hosts.ini").open("a") as settings:
        settings.write("secret=HUB\nenv_file=keys.env\nenv=DB=of-the-settings\n")
    worker = host.root("gpu01") / "ana/mnist/runs" / BAD / "gpu01"
    log = "hub-secret from-the-file of-the-settings of-the-run ghp_0123456789abcdefABCD\n" + LOG
    (worker / "training.log").write_text("x" * 2_000_000 + " hub-secret\n" + log)
    (worker / "launch.json").write_text('{"env": {"HUB": "hub-secret"}}')
    (worker / "progress.jsonl").write_text('{"epoch": 31}\n')
    environ = {"HUB": "hub-secret", "WANDB_API_KEY": "of-the-run"}
    said = host("why", "nightly", "--bundle", "why.tar.gz", environ=environ)
    assert said.out.startswith(f"{BAD}   failed on gpu01")
    assert re.match(r"bundle  why.tar.gz, \S+ \w?B, secrets masked: look through it", said.err)
    path = tmp_path / "why.tar.gz"
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".orch-part-*"))
    files = unpacked(path)
    own = ("worker.json", "state.json", "end.json", "training.log", "progress.jsonl")
    names = {"why.txt", "why.json", "versions.txt", "spec.json", *(f"gpu01/{name}" for name in own)}
    assert set(files) == {f"orch-why-{BAD}/{name}" for name in names}
    inside = {name.removeprefix(f"orch-why-{BAD}/"): text for name, text in files.items()}
    assert inside["gpu01/training.log"] == "*** *** *** *** ***\n" + LOG, "its end, from a whole line on"
    assert inside["why.txt"] == said.out
    assert json.loads(inside["why.json"])["run"] == BAD
    assert re.match(r"orch \S+\nPython 3\S+\nssh OpenSSH", inside["versions.txt"])
    for text in files.values():
        for secret in ("hub-secret", "from-the-file", "of-the-settings", "of-the-run", "ghp_"):
            assert secret not in text
    assert [s.name for s in said.machines["gpu01"].ran][-1] == "why-files"


def test_an_archive_takes_nobodys_place(host: RunFolders, tmp_path: Path) -> None:
    with_a_failure(host)
    (tmp_path / "why.tar.gz").write_text("mine")
    said = host("why", "--bundle", "why.tar.gz", code=2)
    assert (said.out, said.machines) == ("", {})
    assert said.err == f"orch: {tmp_path}/why.tar.gz is there already. Choose another name.\n"
    assert (tmp_path / "why.tar.gz").read_text() == "mine"
    assert host("why", "--bundle", "no/such/why.tar.gz", code=2).err.startswith(
        f"orch: {tmp_path}/no/such is no"
    )


def no_links(*_: object) -> None:
    raise OSError(1, "Operation not permitted")


def test_an_archive_that_comes_between_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.errors import UsageError
    from orchestrator.run.explain import archive

    for linked in (True, False):
        if not linked:
            monkeypatch.setattr(archive.os, "link", no_links)
            archive.write(tmp_path / "plain.tar.gz", "f", {"a": b"1"})
            assert (tmp_path / "plain.tar.gz").exists()
        (tmp_path / "x.tar.gz").write_text("mine")
        with pytest.raises(UsageError, match="is there already"):
            archive.write(tmp_path / "x.tar.gz", "f", {"a": b"1"})
        assert (tmp_path / "x.tar.gz").read_text() == "mine"
        assert not list(tmp_path.glob(".orch-part-*"))
