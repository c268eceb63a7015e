"""A worker's folder, and a real supervisor that runs in it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.until import until

# Of this process alone: a sweep goes over the whole machine, and tests run side by side.
RUN = f"run-{secrets.token_hex(4)}"
SUPERVISE = Path(__file__).resolve().parents[2] / "templates" / "supervise.py"


class Worker:
    """One worker's folder, and the supervisor that runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "work").mkdir(parents=True)
        (folder / "lock").touch()
        self.process: subprocess.Popen[bytes] | None = None
        self.more: dict[str, Any] = {}  # what else launch.json has

    def start(
        self,
        *command: str,
        env: dict[str, str] | None = None,
        grace: float = 5.0,
        timeout: float = 0,
        outer: dict[str, str] | None = None,
        program: Path = SUPERVISE,
    ) -> None:
        launch = {
            "boot_id": "boot-1",
            "container": "c1",
            "host": "gpu01",
            "grace": grace,
            "timeout": timeout,
            "env": {"ORCH_RUN_ID": RUN, **(env or {})},
            **self.more,
        }
        (self.folder / "launch.json").write_text(json.dumps(launch))
        line = ["nohup", "setsid", "flock", "-n", str(self.folder / "lock"), sys.executable, str(program)]
        line += ["--person", "ana maria", "--run", RUN, "--", *command]
        with (self.folder / "training.log").open("ab") as log:
            self.process = subprocess.Popen(
                line,
                cwd=self.folder / "work",
                env={**os.environ, "ORCH_WORKER_DIR": str(self.folder), **(outer or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        except FileNotFoundError:
            return {}
        return state

    @property
    def look(self) -> dict[str, Any]:
        look: dict[str, Any] = json.loads((self.folder / "end.json").read_text())
        return look

    @property
    def log(self) -> str:
        return (self.folder / "training.log").read_text()

    def held(self) -> bool:
        return (
            subprocess.run(["flock", "-s", "-n", str(self.folder / "lock"), "true"], check=False).returncode
            == 1
        )

    def end(self) -> dict[str, Any]:
        assert self.process
        self.process.wait(timeout=30)
        return self.state

    def running(self) -> None:
        until(lambda: self.state.get("state") == "running")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path / "gpu01")
    yield worker
    if worker.process and worker.process.poll() is None:
        worker.process.kill()
        worker.process.wait()
    child = worker.state.get("child")
    if child and not worker.state.get("ended"):
        os.killpg(child, signal.SIGKILL)
