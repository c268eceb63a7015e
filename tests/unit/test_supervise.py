"""The supervisor, as a real process under nohup, setsid and flock, with real ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.supervised import RUN, SUPERVISE, Worker, worker
from tests.until import until

__all__ = ["worker"]  # a fixture


def test_a_clean_end(worker: Worker) -> None:
    worker.start("sh", "-c", 'echo "$GREETING"; pwd', env={"GREETING": "a 'b' \"c\"\nd"})
    state = worker.end()
    assert state["state"] == "succeeded"
    assert state["exit_code"] == 0
    assert state["cause"] == {"kind": "exit", "code": 0}
    assert worker.log == f"a 'b' \"c\"\nd\n{worker.folder / 'work'}\n"
    assert state["started"] <= state["ended"] <= time.time()
    assert (state["host"], state["boot_id"], state["container"]) == ("gpu01", "boot-1", "c1")


def test_the_command_is_told_where_to_say_how_far_it_is(worker: Worker) -> None:
    worker.start("sh", "-c", "echo '{\"epoch\": 1}' > $ORCH_PROGRESS")
    worker.end()
    assert (worker.folder / "progress.jsonl").read_text() == '{"epoch": 1}\n'


def test_the_secret_file_is_gone_as_soon_as_it_was_read(worker: Worker) -> None:
    worker.start("sleep", "60", env={"TOKEN": "s3cret"})
    worker.running()
    assert not (worker.folder / "launch.json").exists()
    assert "s3cret" not in json.dumps(worker.state)


@pytest.mark.parametrize("code", [1, 3, 137, 255])
def test_an_exit_status_is_kept(worker: Worker, code: int) -> None:
    worker.start("sh", "-c", f"exit {code}")
    state = worker.end()
    assert (state["state"], state["exit_code"], state["signal"]) == ("failed", code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_from_outside_is_a_failure_with_its_number(worker: Worker, number: int) -> None:
    worker.start("sleep", "60")
    worker.running()
    os.kill(worker.state["child"], number)
    state = worker.end()
    assert (state["state"], state["exit_code"], state["signal"]) == ("failed", None, number)
    assert state["cause"] == {"kind": "signal", "signal": number}


def test_the_exception_that_a_python_died_of_is_the_cause(worker: Worker) -> None:
    worker.start(sys.executable, "-c", "raise ValueError('no such\\nthing')")
    assert worker.end()["cause"] == {"kind": "exit", "code": 1, "exception": "ValueError: no such"}


def test_an_exception_that_was_caught_is_not_the_cause(worker: Worker) -> None:
    code = "import logging, sys\ntry: 1 / 0\nexcept ZeroDivisionError: logging.exception('x')\nprint('on')"
    worker.start(sys.executable, "-u", "-c", code + "; sys.exit(3)")
    assert worker.end()["cause"] == {"kind": "exit", "code": 3}
    assert "ZeroDivisionError" in worker.log


def test_a_time_that_is_over_ends_the_command(worker: Worker) -> None:
    worker.start("sh", "-c", "trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done", timeout=0.5)
    assert worker.process
    assert worker.process.wait(timeout=30) == 124
    assert worker.state["state"] == "failed"
    assert worker.state["cause"] == {"kind": "timeout", "seconds": 0.5}
    assert worker.log.endswith("saved\n")


def test_a_time_that_is_over_ends_what_ignores_sigterm(worker: Worker) -> None:
    worker.start("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", timeout=0.2, grace=0.2)
    state = worker.end()
    assert (state["state"], state["cause"]["kind"], state["signal"]) == ("failed", "timeout", 9)


def test_a_child_with_a_session_of_its_own_may_save_too(worker: Worker) -> None:
    child = "trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done"
    worker.start("sh", "-c", f'setsid sh -c "{child}" & wait')
    until(lambda: "ready" in worker.log)
    os.kill(worker.state["pid"], signal.SIGTERM)
    assert worker.end()["state"] == "stopped"
    assert worker.log.endswith("saved\n")


def test_a_command_that_is_not_there(worker: Worker) -> None:
    worker.start("no-such-command", "--x")
    state = worker.end()
    assert (state["state"], state["exit_code"], state["cause"]["kind"]) == ("failed", 127, "not started")
    assert "no-such-command" in state["cause"]["message"]
    assert "cannot run 'no-such-command': No such file or directory" in worker.log


def test_a_command_that_may_not_be_run(worker: Worker) -> None:
    (worker.folder / "work" / "train.sh").write_text("true\n")
    worker.start("./train.sh")
    assert worker.end()["exit_code"] == 126


def test_a_running_command_holds_the_lock_and_names_itself(worker: Worker) -> None:
    worker.start("sleep", "60")
    worker.running()
    assert worker.held()
    line = Path(f"/proc/{worker.state['pid']}/cmdline").read_bytes().split(b"\0")
    assert line[1:6] == [str(SUPERVISE).encode(), b"--person", b"ana maria", b"--run", RUN.encode()]
    stat = Path(f"/proc/{worker.state['pid']}/stat").read_text().rpartition(")")[2].split()
    assert worker.state["pid_start"] == int(stat[19])


def test_the_lock_is_free_after_the_end(worker: Worker) -> None:
    worker.start("true")
    worker.end()
    assert not worker.held()


def test_stop_lets_the_training_save(worker: Worker) -> None:
    worker.start("sh", "-c", "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: "ready" in worker.log)
    (worker.folder / "stop.json").write_text(json.dumps({"by": "bob", "why": "my turn", "grace": 10}))
    os.kill(worker.state["pid"], signal.SIGTERM)
    state = worker.end()
    assert state["state"] == "stopped"
    assert (state["cause"]["by"], state["cause"]["why"]) == ("bob", "my turn")
    assert worker.log.endswith("saved\n")


def test_stop_kills_what_ignores_it_when_the_grace_is_over(worker: Worker) -> None:
    worker.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: "ready" in worker.log)
    (worker.folder / "stop.json").write_text(json.dumps({"by": "ana", "grace": 0.2}))
    os.kill(worker.state["pid"], signal.SIGTERM)
    state = worker.end()
    assert (state["state"], state["signal"]) == ("stopped", signal.SIGKILL)


def test_stop_leaves_no_child_behind_not_even_one_with_its_own_session(worker: Worker) -> None:
    worker.start("sh", "-c", "setsid sleep 61 & sleep 62 & echo $!; wait")
    until(lambda: worker.log)
    token = f"ORCH_RUN_ID={RUN}".encode()

    def members() -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if token in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(pid)
            except OSError:
                continue
        return found

    until(lambda: len(members()) == 3)
    os.kill(worker.state["pid"], signal.SIGTERM)
    worker.end()
    until(lambda: not members())
    assert not worker.held()


def test_a_child_that_outlives_the_command_holds_the_lock(worker: Worker) -> None:
    worker.start("sh", "-c", "sleep 30 & echo $!")
    state = worker.end()
    child = int(worker.log)
    try:
        assert state["state"] == "succeeded"
        assert worker.held()
    finally:
        os.kill(child, signal.SIGKILL)
    until(lambda: not worker.held())


def test_a_hangup_ends_nothing(worker: Worker) -> None:
    worker.start("sh", "-c", "echo ready; sleep 0.3; echo done")
    until(lambda: "ready" in worker.log)
    os.kill(worker.state["pid"], signal.SIGHUP)
    assert worker.end()["state"] == "succeeded"
    assert worker.log == "ready\ndone\n"


def test_a_second_supervisor_on_one_lock_does_not_start(worker: Worker) -> None:
    worker.start("sleep", "60")
    worker.running()
    first, worker.process = worker.process, None
    worker.start("echo", "second")
    assert worker.process
    second: subprocess.Popen[bytes] = worker.process
    assert second.wait(timeout=10) == 1
    worker.process = first
    assert "second" not in worker.log


@pytest.mark.skipif(os.geteuid() != 0, reason="not tested: a full disk (mounting a small one needs root)")
def test_the_end_is_recorded_on_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], check=True)
    try:
        worker = Worker(disk / "gpu01")
        worker.start("sh", "-c", "cat /dev/zero > ./big; exit 7")
        state = worker.end()
        assert (disk / "gpu01" / "work" / "big").stat().st_size > 50_000
        assert (state["state"], state["exit_code"]) == ("failed", 7)
        assert not list((disk / "gpu01").glob("end.json*"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_it_is_python_3_6() -> None:
    import ast

    for file in (SUPERVISE, *(SUPERVISE.parent / "supervisor").glob("*.py")):
        ast.parse(file.read_text(), feature_version=(3, 6))
