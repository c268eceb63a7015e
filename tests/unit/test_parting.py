"""When a container is told to stop, what goes on later parts without a last word; the rest has one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.unit import workers as members
from tests.unit.supervised import SUPERVISE, Worker, worker
from tests.unit.workers import Workers
from tests.until import until

__all__ = ["worker"]  # a fixture

# A supervisor whose container ends when `ending` is there; `late`: as soon as its command has ended.
PROGRAM = f"""\
import os, signal, sys
sys.path.insert(0, {str(SUPERVISE.parent)!r})
import supervise
from supervisor import alone, attempt
attempt.ENDING = os.path.join(os.environ["ORCH_WORKER_DIR"], "ending")
def leave(self, patience):
    open(attempt.ENDING, "w").close()
    os.kill(os.getpid(), signal.SIGTERM)
if {{late}}:
    alone.Alone.leave = leave
supervise.main(sys.argv[1:])
"""


def program(folder: Path, late: bool = False) -> Path:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(late=late))
    return path


def test_a_run_whose_container_is_stopped_goes_on_when_that_comes_back(
    worker: Worker, tmp_path: Path
) -> None:
    worker.more = {"restarts": {"max": 2}}
    worker.start("sleep", "60", program=program(tmp_path))
    worker.running()
    (worker.folder / "ending").touch()
    os.kill(worker.state["pid"], signal.SIGTERM)
    assert "ended" not in worker.end()
    assert (worker.folder / "launch.json").exists()
    (worker.folder / "ending").unlink()
    worker.start("true", program=program(tmp_path))
    assert (worker.end()["state"], worker.state["attempt"]) == ("succeeded", 1)


@pytest.mark.parametrize(("command", "state"), [("exit 3", "failed"), ("true", "succeeded")])
def test_an_end_that_no_restart_follows_is_recorded(
    worker: Worker, tmp_path: Path, command: str, state: str
) -> None:
    worker.more = {"restarts": {"max": 2}}
    worker.start("sh", "-c", command, program=program(tmp_path, late=True))
    assert (worker.end()["state"], "ended" in worker.state) == (state, True)
    assert (worker.folder / "ending").exists()
    assert not (worker.folder / "launch.json").exists()


def test_a_chief_that_waits_for_the_ends_of_others_records_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "SUPERVISE", program(tmp_path))
    workers = Workers(tmp_path, 2, {"max": 3})
    for member in workers.members:
        member.launch["grace"] = 30.0
    try:
        workers.start("exit 3", "trap 'touch ../asked' TERM; while [ ! -e ../end ]; do sleep 0.05; done")
        until((workers[1].folder / "asked").exists)
        (workers[0].folder / "ending").touch()
        os.kill(workers[0].state["pid"], signal.SIGTERM)
        state = workers[0].end()
        assert (state["state"], state.get("cause")) == ("failed", {"kind": "exit", "code": 3})
        (workers[1].folder / "end").touch()
        assert workers[1].end()["state"] == "failed"
    finally:
        workers.kill()
