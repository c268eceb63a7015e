"""However often a run is started again, its state.json fits into what is kept for it on a full disk."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates"))
from supervisor.restarts import LONGEST, Restarts
from supervisor.state import SPARE


def test_many_restarts_are_counted_and_stay_small() -> None:
    restarts = Restarts({"max": 300, "on": ["nccl"]})
    why = {"kind": "exit", "code": 1, "exception": "x" * 300}
    for number in range(300):
        assert restarts.after("nccl") is not None
        line = restarts.note("gpu01", {"kind": "peer", "host": "gpu02", "how": "failed", "cause": why})
        assert line.startswith(f"orch: restart {number + 1} of 300 after: peer gpu02 failed")
        restarts = Restarts({"max": 300, "on": ["nccl"]}, json.loads(json.dumps(restarts.past)))
    assert restarts.after("nccl") is None
    assert [entry["cause"]["cause"] for entry in restarts.past[-10:]] == [why] * 10
    assert len(json.dumps(restarts.past)) < SPARE - 4096


def test_the_wait_after_thousands_of_restarts_is_the_longest() -> None:
    restarts = Restarts({"max": 9000, "on": ["nccl"]}, [{"at": 1}] * 5000)
    assert restarts.after("nccl") == LONGEST
