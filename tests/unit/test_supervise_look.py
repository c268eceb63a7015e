"""What a supervisor sees of its host at the end, before its last word."""

from __future__ import annotations

import os
import signal
import sys
import time

from tests.unit.supervised import Worker, worker

__all__ = ["worker"]  # a fixture


def test_the_host_is_looked_at_before_the_last_word(worker: Worker) -> None:
    worker.start(sys.executable, "-c", "x = bytearray(30_000_000); raise SystemExit(3)")
    worker.end()
    look = worker.look
    assert look["memory_total"] > look["memory_available"] > 0
    assert look["disk_total"] >= look["disk_free"] > 0
    assert look["max_rss"] > 30_000_000
    assert look["user_seconds"] > 0
    assert "gpus" not in look


SMI = """\
case "$*" in
    *query-gpu*) echo 'GPU-a, 0, 11000, 40536, 64, A100, of 40 GB'
        echo 'GPU-b, 1, [GPU is lost], 1, 1, A100' ;;
    *) echo 'GPU-a, 71, 10500, python3, train.py'; echo 'GPU-c, 72, 1, x' ;;
esac
"""


def smi(worker: Worker, text: str) -> dict[str, str]:
    program = worker.folder / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}


def test_the_gpus_of_the_run_are_looked_at(worker: Worker) -> None:
    worker.start("false", outer=smi(worker, SMI))
    worker.end()
    first, second = worker.look["gpus"]
    assert (first["uuid"], first["index"], first["name"]) == ("GPU-a", 0, "A100, of 40 GB")
    assert (first["memory_used"], first["temperature"], first["fault"]) == (11000 * 2**20, 64, None)
    assert (second["memory_used"], second["fault"]) == (None, "GPU is lost")
    assert worker.look["gpu_processes"] == [
        {"uuid": "GPU-a", "pid": 71, "memory": 10500 * 2**20, "name": "python3, train.py"}
    ]


def test_a_driver_that_answers_nothing_is_a_fault(worker: Worker) -> None:
    worker.start("false", outer=smi(worker, "echo 'No devices were found'; exit 6"))
    worker.end()
    assert worker.look["gpus"][0] == {"uuid": "GPU-a", "fault": "No devices were found"}


def test_a_driver_that_hangs_does_not_hold_up_the_end_of_a_run_that_is_stopped(worker: Worker) -> None:
    worker.start("sleep", "60", outer=smi(worker, "exec sleep 8"))
    worker.running()
    begun = time.monotonic()
    os.kill(worker.state["pid"], signal.SIGTERM)
    assert worker.end()["state"] == "stopped"
    assert time.monotonic() - begun < 7
