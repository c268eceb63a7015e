"""The launch, stop and records scripts, run by a real sh on this machine, with a venv-like environment."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.ready import NoEnvironment
from orchestrator.errors import Busy, HostError
from orchestrator.facts.gpu import GPUS as GPU_FACT
from orchestrator.facts.gpu import is_free
from orchestrator.facts.question import ask
from orchestrator.hosts.local import LocalMachine
from orchestrator.inventory import Host, Settings
from orchestrator.run.code.bundle import collect
from orchestrator.run.code.upload import upload
from orchestrator.run.launch import Launched, NeedsBundle, Order, launch
from orchestrator.run.record import RUNS, Record, query
from orchestrator.run.spec import RunSpec
from orchestrator.run.status import judge
from orchestrator.run.stop import stop
from tests.unit.here import record, venv_in
from tests.until import until

GPUS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
# Of this process alone: a stop sweeps the whole machine for its run, and tests run side by side.
RUN = f"20261130-0214-{secrets.token_hex(4)}-000"
IDLE = "0, GPU-aaaa, 3\n1, GPU-bbbb, 3\n2, GPU-cccc, 3\n"


class Place:
    """A host's project folder with a small bundle in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "ana" / "my project's"
        self.host = Host("gpu01", "gpu01", connection="local", settings=Settings(root=str(root)))
        self.machine = LocalMachine(self.host)
        bundle = self.folder / "bundles" / "b1"
        (bundle / "src").mkdir(parents=True)
        (bundle / "data.txt").write_text("kept\n")
        os.chmod(bundle / "data.txt", 0o444)
        self.runs: list[str] = []

    def deploy(self, *, gpus: tuple[str, ...] = (), path: str = os.environ["PATH"]) -> None:
        environment = venv_in(self.folder, gpus=gpus)
        self.here = record(environment)
        (self.folder / "enter").write_text(f'PATH=\'{path}\'; export PATH\ncd "$1" && shift && exec "$@"\n')
        (self.folder / "whole").touch()

    def order(self, *argv: str, run: str = RUN + "1", **fields: Any) -> Order:
        spec = RunSpec(run, argv, ("gpu01",), "ana maria", "p", "b1", by="ana@laptop")
        mine = {k: fields.pop(k) for k in list(fields) if k in ("env", "share", "watch")}
        return Order(replace(spec, **fields), str(self.folder), **mine)

    def launch(self, *argv: str, **fields: Any) -> Launched:
        order = self.order(*argv, **fields)
        self.runs.append(order.spec.run)
        return launch(self.machine, order)

    def worker(self, run: str = RUN + "1") -> Path:
        return self.folder / "runs" / run / "gpu01"

    def records(self, run: str = "*", since: int | None = None) -> tuple[Record, ...]:
        values = query(str(self.root), run=run, since=since, tail=1000, engine="")
        return ask(self.machine, RUNS, values=values).of(RUNS)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "root")
    place.deploy()
    yield place
    for found in place.records():
        stop(place.machine, found, by="test", grace=0)
    place.machine.close()


def test_a_launch_says_how_the_command_began(place: Place) -> None:
    launched = place.launch("sleep", "60")
    assert launched.state["state"] == "running"
    assert launched.place == str(place.folder)
    assert launched.gpus is None
    spec = json.loads((place.folder / "runs" / "latest" / "spec.json").read_text())
    assert spec["argv"] == ["sleep", "60"]
    assert f"ana@laptop train {RUN}1\n" in (place.folder / "audit.log").read_text()


def test_words_and_variables_arrive_as_they_are(place: Place) -> None:
    words = ["a b", "'", '"', "$HOME", "`id`", "x\ny", "\\", "*", "", "é"]
    code = (
        "import os, sys, json; print(json.dumps([sys.argv[1:], os.environ['V'], os.environ['ORCH_PERSON']]))"
    )
    place.launch("python3", "-c", code, *words, env={"V": "1; touch pwned '\"\n$(id)"}, watch=20)
    said = json.loads((place.worker() / "training.log").read_text())
    assert said == [words, "1; touch pwned '\"\n$(id)", "ana maria"]


def test_many_words_and_any_bytes_arrive(place: Place) -> None:
    words = ["x" * 100_000, "y" * 100_000, os.fsdecode(b"\xff\xfe")]
    code = "import os, sys; print([len(os.fsencode(w)) for w in sys.argv[1:]], os.fsencode(sys.argv[3]))"
    assert place.launch("python3", "-c", code, *words, watch=20).log == "[100000, 100000, 2] b'\\xff\\xfe'"


def test_the_value_of_a_variable_is_nowhere_in_the_record(place: Place) -> None:
    place.launch("sleep", "60", env={"TOKEN": "hush-hush"})
    for file in (place.folder / "runs").rglob("*"):
        assert not file.is_file() or b"hush-hush" not in file.read_bytes()


def test_work_is_a_writable_copy_of_the_bundle(place: Place) -> None:
    place.launch("sh", "-c", "echo more >> data.txt; pwd", watch=20)
    work = place.worker() / "work"
    assert (work / "data.txt").read_text() == "kept\nmore\n"
    assert (place.folder / "bundles" / "b1" / "data.txt").read_text() == "kept\n"
    assert (place.worker() / "training.log").read_text() == f"{work}\n"


def test_what_happens_here_after_the_launch_changes_nothing_there(place: Place, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.sh").write_text("until [ -e go ]; do sleep 0.05; done; . ./part.sh\n")
    (project / "part.sh").write_text("echo as it was; echo 'echo mine' > part.sh\n")
    (project / "gone.sh").write_text("echo still here\n")
    bundle = collect(project, cache=tmp_path / "cache")
    upload(place.machine, str(place.folder), bundle)
    place.launch("sh", "-c", "sh train.sh; sh gone.sh; sh part.sh", bundle=bundle.digest)
    (project / "part.sh").write_text("echo edited\n")
    (project / "gone.sh").unlink()
    (place.worker() / "work" / "go").touch()
    log = place.worker() / "training.log"
    until(lambda: log.read_text().endswith("mine\n"))
    assert log.read_text() == "as it was\nstill here\nmine\n"
    sent = place.folder / "bundles" / bundle.digest
    assert collect(sent, cache=Path("/dev/null/none")).digest == bundle.digest


def test_the_command_runs_in_the_same_sub_folder(place: Place) -> None:
    place.launch("pwd", sub="src", watch=20)
    assert (place.worker() / "training.log").read_text() == f"{place.worker()}/work/src\n"


def test_an_early_end_is_told_with_its_last_lines(place: Place) -> None:
    launched = place.launch("sh", "-c", "echo one; echo two >&2; exit 3", watch=20)
    assert launched.state["exit_code"] == 3
    assert launched.log == "one\ntwo"


def test_a_launch_returns_before_the_command_ends(place: Place) -> None:
    launched = place.launch("sleep", "60", watch=1)
    assert launched.state["state"] == "running"


def test_nothing_deployed(place: Place) -> None:
    (place.here / "environment.sh").unlink()
    with pytest.raises(NoEnvironment, match="orch deploy --hosts gpu01"):
        place.launch("true")
    assert not (place.folder / "runs").exists()


def test_an_environment_that_is_gone(place: Place) -> None:
    (place.folder / "whole").unlink()
    with pytest.raises(NoEnvironment, match="is gone"):
        place.launch("true")


def test_code_that_is_not_there_yet(place: Place) -> None:
    with pytest.raises(NeedsBundle):
        place.launch("true", bundle="b2")
    assert not (place.folder / "runs").exists()


def test_the_same_id_twice_is_refused_and_the_first_is_untouched(place: Place) -> None:
    place.launch("sleep", "60")
    with pytest.raises(Busy, match="exists already"):
        place.launch("echo", "second")
    assert (place.worker() / "training.log").read_text() == ""


def test_a_launch_that_cannot_place_its_files_leaves_nothing(place: Place) -> None:
    (place.folder / "bundles" / "b1" / "src").rmdir()
    os.chmod(place.folder / "bundles" / "b1" / "data.txt", 0o000)
    (place.folder / "runs").mkdir()
    (place.folder / "runs" / (RUN + "1")).touch()
    with pytest.raises(HostError, match="could not be placed"):
        place.launch("true")
    assert not place.worker().exists()


def test_the_private_file_is_private_and_goes_when_nobody_reads_it(place: Place) -> None:
    mode = place.root / "mode"
    tool(place, "python3", f'echo no python here\nstat -c %a "$ORCH_WORKER_DIR/launch.json" > {mode}\nexit 5')
    with pytest.raises(HostError, match="supervisor did not start") as told:
        place.launch("true", env={"TOKEN": "hush-hush"})
    assert told.value.details == "no python here"
    assert mode.read_text() == "600\n"
    assert not (place.worker() / "launch.json").exists()


def tool(place: Place, name: str, text: str) -> None:
    """Put a program in front of the others of the environment."""
    tools = place.root / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / name).write_text(f"#!/bin/sh\n{text}\n")
    (tools / name).chmod(0o755)
    place.deploy(path=f"{tools}:{os.environ['PATH']}")


def test_somebody_who_looks_at_the_lock_keeps_no_run_from_starting(place: Place) -> None:
    looks = '(flock -s 9; sleep 1) 9<"$ORCH_WORKER_DIR/lock" &'
    tool(place, "nohup", f'{looks}\nsleep 0.3\nexec {shutil.which("nohup")} "$@"')
    assert place.launch("sleep", "60").state["state"] == "running"


def test_a_supervisor_that_needs_long_is_waited_for(place: Place) -> None:
    tool(place, "python3", f'case "$*" in *--person*) sleep 12 ;; esac\nexec {sys.executable} "$@"')
    assert place.launch("sleep", "60").state["state"] == "running"


def test_a_launch_that_was_given_up_never_begins(place: Place) -> None:
    place.launch("true", watch=20)
    line = [
        "python3",
        str(place.worker() / "supervise.py"),
        "--person",
        "a",
        "--run",
        "r",
        "--",
        "touch",
        "x",
    ]
    done = subprocess.run(
        [*line, "touch", "x"],
        cwd=place.root,
        env={**os.environ, "ORCH_WORKER_DIR": str(place.worker())},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"orch: this launch was given up\n")
    assert not (place.root / "x").exists()


# Records and stops


def test_a_live_run_is_read_and_stopped(place: Place) -> None:
    place.launch("sh", "-c", "echo hello; sleep 60")
    (record,) = place.records()
    assert record.spec.person == "ana maria"
    assert record.lock == "held"
    assert judge(record).state == "running"
    stopped = stop(place.machine, record, by="bob@desk", why="my turn", grace=5)
    assert stopped.how == "stopped"
    (record,) = place.records()
    status = judge(record)
    assert (status.state, status.cause, status.exit_status) == ("stopped", "by bob@desk: my turn", 143)
    assert record.lock == "free"
    assert stop(place.machine, record, by="bob@desk").how == "already"


def test_a_run_whose_supervisor_was_killed_still_runs_and_can_be_stopped(place: Place) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state["pid"], 9)
    (record,) = place.records()
    assert judge(record).state == "running"
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    status = judge(record)
    assert (status.state, status.cause, status.inferred) == ("stopped", "by bob; supervisor gone", True)
    assert stop(place.machine, record, by="bob", grace=5).how == "lost"


def test_stopping_what_was_lost_changes_nothing(place: Place) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state["pid"], 9)
    os.kill(record.state["child"], 9)
    assert stop(place.machine, record, by="bob", grace=5).how == "lost"
    (record,) = place.records()
    assert judge(record).state == "lost"


CLOSE = "import os, time; os.closerange(3, 256); print('closed', flush=True); time.sleep(60)"


def test_a_command_that_closed_the_lock_outlives_its_supervisor_and_is_seen(place: Place) -> None:
    place.launch("python3", "-c", CLOSE, watch=1)
    (record,) = place.records()
    os.kill(record.state["pid"], 9)
    (record,) = place.records()
    assert judge(record).state == "running"
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    assert judge(record).state == "stopped"


@pytest.mark.parametrize("who", ["pid", "child"])
def test_what_was_halted_can_be_stopped(place: Place, who: str) -> None:
    place.launch("sleep", "60")
    (record,) = place.records()
    os.kill(record.state[who], 19)
    assert stop(place.machine, record, by="bob", grace=5).how == "stopped"
    (record,) = place.records()
    assert (judge(record).state, record.state["signal"]) == ("stopped", 15)


def test_what_ended_long_ago_is_left_out_and_what_lives_is_not(place: Place) -> None:
    for number, argv in enumerate((("true",), ("sleep", "60"), ("sleep", "60"), ("true",)), 1):
        place.launch(*argv, run=f"{RUN}{number}", watch=1)
    living, lost = (r.state for r in place.records() if not r.state.get("ended"))
    os.kill(lost["pid"], 9)
    os.kill(lost["child"], 9)
    os.kill(living["pid"], 19)  # no heartbeat from here on
    old = time.time() - 86_400
    for file in (*place.folder.rglob("state.json"), *place.folder.rglob("worker.json")):
        if "0004" not in str(file):
            os.utime(file, (old, old))
    assert [r.spec.run[-4:] for r in place.records(since=60)] == ["0002", "0004"]


@pytest.mark.parametrize("name", ["state.json", "worker.json"])
@pytest.mark.parametrize("text", ["", "garbage\n", "[]\n", '{"a": ', '"a"\n{}\n'])
def test_a_record_that_was_written_over_is_still_listed(place: Place, name: str, text: str) -> None:
    place.launch("true", watch=20)
    (place.worker() / name).write_text(text)
    (record,) = place.records()
    assert record.spec.run == RUN + "1"
    assert judge(record).state in ("starting", "succeeded", "lost")


def test_the_log_and_progress_come_with_the_record(place: Place) -> None:
    place.launch(
        "sh", "-c", "echo first; printf 'a\\tb \\001\\n'; echo '{\"epoch\": 3}' > ../progress.jsonl", watch=20
    )
    (record,) = place.records(RUN + "1")
    assert record.tail == "first\na\tb \001"
    assert record.progress == '{"epoch": 3}'
    assert record.size == 12


# GPUs


@pytest.fixture
def smi(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nvidia-smi that prints `rows` and `apps` from a folder."""
    tools = tmp_path / "smi"
    tools.mkdir()
    (tools / "rows").write_text(IDLE)
    (tools / "apps").write_text("")
    program = tools / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *compute-apps*) cat {tools}/apps;; *) cat {tools}/rows;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    place.deploy(gpus=GPUS)
    return tools


def chosen(place: Place, run: str) -> Any:
    return place.launch(
        "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; sleep 60", run=run
    ).indices


def test_all_free_gpus_by_default(place: Place, smi: Path) -> None:
    launched = place.launch("sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER", watch=20)
    assert launched.gpus == GPUS
    assert launched.log == "GPU-aaaa,GPU-bbbb,GPU-cccc PCI_BUS_ID"


@pytest.mark.parametrize(
    ("rows", "apps", "wish", "expected"),
    [
        (IDLE, "", "1", (0,)),
        (IDLE, "", "ids:2,0", (2, 0)),
        (IDLE, "", "ids:GPU-bbbb", (1,)),
        (IDLE, "GPU-aaaa\n", "1", (1,)),
        (IDLE.replace("GPU-aaaa, 3", "GPU-aaaa, 501"), "", "", (1, 2)),
        (IDLE.replace("GPU-bbbb, 3", "GPU-bbbb, [GPU is lost]"), "", "", (0, 2)),
        (IDLE.replace("GPU-bbbb, 3", "GPU-bbbb, [N/A]"), "", "", (0, 1, 2)),
        (IDLE + "3, GPU-dddd, 3\n", "", "all", (0, 1, 2)),
    ],
)
def test_the_choice(
    place: Place, smi: Path, rows: str, apps: str, wish: str, expected: tuple[int, ...]
) -> None:
    (smi / "rows").write_text(rows)
    (smi / "apps").write_text(apps)
    assert place.launch("true", gpus=wish, watch=5).indices == expected


@pytest.mark.parametrize("wish", ["4", "all", "ids:0"])
def test_too_few_free_ones_are_busy_and_leave_nothing(place: Place, smi: Path, wish: str) -> None:
    (smi / "apps").write_text("GPU-aaaa\n")
    with pytest.raises(Busy, match="no free GPU"):
        place.launch("true", gpus=wish)
    assert not list((place.folder / "runs").glob("2*"))


@pytest.mark.parametrize("known", [True, False], ids=["processes-known", "processes-not-known"])
@pytest.mark.parametrize(
    ("held", "process", "free"),
    [
        ("3", False, True),
        ("500", False, True),
        ("501", False, False),
        ("3", True, False),
        ("[N/A]", False, True),
        ("[Not Supported]", False, True),
        ("[N/A]", True, False),
        ("[Unknown Error]", False, False),
        ("[GPU requires reset]", False, False),
    ],
)
def test_a_launch_and_gpu_status_call_the_same_gpus_free(
    place: Place, smi: Path, held: str, process: bool, free: bool, known: bool
) -> None:
    if not known:
        free = held in ("3", "500")  # a process that nobody sees; where no memory is told nothing is known
    (smi / "rows").write_text(f"0, GPU-aaaa, {held}\n")
    (smi / "full").write_text(f"0, GPU-aaaa, A100, 535.1, 40960, {held}, 0, 30, 50, [N/A]\n")
    (smi / "apps").write_text("GPU-aaaa\n" * process if known else "Unknown Error\n")
    (smi / "who").write_text("GPU-aaaa, 4242, python3, 3\n" * process if known else "Unknown Error\n")
    (smi / "nvidia-smi").write_text(
        f'#!/bin/sh\ncd {smi}\ncase "$*" in\n'
        f"*apps=gpu_uuid,*) cat who; exit {int(not known)} ;;\n*apps=*) cat apps; exit {int(not known)} ;;\n"
        "*gpu=index,uuid,memory.used*) cat rows ;;\n*) cat full ;;\nesac\n"
    )
    (gpu,) = ask(place.machine, GPU_FACT).of(GPU_FACT).gpus
    assert is_free(gpu) is free
    if free:
        assert place.launch("true", gpus="ids:0", watch=5).indices == (0,)
    else:
        with pytest.raises(Busy, match="no free GPU"):
            place.launch("true", gpus="ids:0")


def test_share_takes_a_gpu_in_use(place: Place, smi: Path) -> None:
    (smi / "apps").write_text("GPU-aaaa\n")
    assert place.launch("true", gpus="ids:0", share=True, watch=5).indices == (0,)


def test_a_gpu_that_is_not_there(place: Place, smi: Path) -> None:
    with pytest.raises(HostError, match="there is no GPU 7"):
        place.launch("true", gpus="ids:7")


def test_a_run_that_has_not_touched_its_gpu_yet_holds_it(place: Place, smi: Path) -> None:
    assert place.launch("sleep", "60", gpus="2", run=RUN + "1").indices == (0, 1)
    assert place.launch("sleep", "60", run=RUN + "2").indices == (2,)
    with pytest.raises(Busy):
        place.launch("sleep", "60", run=RUN + "3")


def test_a_run_that_ended_holds_nothing(place: Place, smi: Path) -> None:
    place.launch("true", run=RUN + "1", watch=20)
    assert place.launch("true", run=RUN + "2", gpus="all", watch=5).indices == (0, 1, 2)


def test_none_hides_the_gpus(place: Place, smi: Path) -> None:
    launched = place.launch("sh", "-c", 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"', gpus="none", watch=20)
    assert launched.gpus == ()
    assert launched.log == "[]"


def test_an_environment_without_gpus(place: Place) -> None:
    launched = place.launch("sh", "-c", 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"', watch=20)
    assert (launched.gpus, launched.log) == (None, "[unset]")
    with pytest.raises(HostError, match="has no GPU"):
        place.launch("true", gpus="1", run=RUN + "2")


def test_a_run_that_never_spoke_is_lost_when_it_cannot_begin_any_more(place: Place) -> None:
    place.launch("true", watch=20)
    (place.worker() / "state.json").unlink()
    (record,) = place.records()
    assert (judge(record).state, judge(record).cause) == ("lost", "its supervisor never started")


def test_a_run_of_a_minute_ago_that_never_spoke_is_lost(place: Place) -> None:
    place.launch("true", watch=20)
    (place.worker() / "state.json").unlink()
    (place.worker() / "launch.json").touch()
    (record,) = place.records()
    assert judge(record).state == "starting"
    old = time.time() - 60
    os.utime(place.worker() / "worker.json", (old, old))
    (record,) = place.records()
    assert (judge(record).state, judge(record).cause) == ("lost", "its supervisor never started")
