"""How long a run took that another supervisor began."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.unit.supervised import Worker, worker

__all__ = ["worker"]  # a fixture


@pytest.mark.parametrize(
    ("began", "took"),
    [
        (lambda state: {"since": state.get("since", 0.0) - 1000.0, "started": 2e9}, 1000.0),
        (lambda state: {"boot_seen": "another", "started": state["started"] - 5000.0}, 5000.0),
    ],
    ids=["same boot, the clock was set", "rebooted"],
)
def test_a_run_that_goes_on_took_as_long_as_all_of_it(worker: Worker, began: Any, took: float) -> None:
    worker.more = {"restarts": {"max": 2}}
    worker.start("sleep", "60")
    worker.running()
    state = worker.state
    os.kill(state["pid"], signal.SIGKILL)
    os.killpg(state["child"], signal.SIGKILL)
    assert worker.process
    worker.process.wait()
    (worker.folder / "state.json").write_text(json.dumps({**state, **began(state)}))
    worker.start("true")
    assert worker.end()["state"] == "succeeded"
    assert took <= worker.state["seconds"] < took + 500
