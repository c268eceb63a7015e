"""The workers of one run on this machine, each with a real supervisor and an address of its own."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.supervised import SUPERVISE
from tests.until import until

TIMES = {"join": 20.0, "lost": 3.0, "ping": 0.5, "aside": 1.0}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


class Member:
    """One worker: its folder and its supervisor."""

    def __init__(self, folder: Path, run: str, launch: dict[str, Any], before: tuple[str, ...] = ()) -> None:
        self.folder, self.run, self.launch, self.before = folder, run, launch, before
        (folder / "work").mkdir(parents=True)
        (folder / "lock").touch()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *command: str) -> None:
        (self.folder / "launch.json").write_text(json.dumps(self.launch))
        self.again(*command)

    def again(self, *command: str) -> None:
        """Start the supervisor, with what an earlier one left."""
        line = [*self.before, "flock", "-w", "10", str(self.folder / "lock"), sys.executable, str(SUPERVISE)]
        line += ["--person", "ana", "--run", self.run, "--", *command]
        with (self.folder / "training.log").open("ab") as log:
            self.process = subprocess.Popen(
                line,
                cwd=self.folder / "work",
                env={**os.environ, "ORCH_WORKER_DIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        except FileNotFoundError:
            return {}
        return state

    @property
    def log(self) -> str:
        return (self.folder / "training.log").read_text()

    def is_in(self, state: str) -> None:
        until(lambda: self.state.get("state") == state, f"{self.folder.name} {state}: {self.state}")

    def end(self) -> dict[str, Any]:
        assert self.process
        self.process.wait(timeout=60)
        return self.state

    def kill_supervisor(self) -> None:
        os.kill(self.state["pid"], signal.SIGKILL)

    def kill_all(self) -> None:
        """As when the power of its host goes."""
        child = self.state["child"]
        self.kill_supervisor()
        os.killpg(child, signal.SIGKILL)
        assert self.process
        self.process.wait()

    def stop(self, **asked: object) -> None:
        (self.folder / "stop.json").write_text(json.dumps(asked))
        os.kill(self.state["pid"], signal.SIGTERM)


class Workers:
    """A run on hosts gpu01, gpu02, ... at 127.0.0.1, 127.0.0.2, ..."""

    def __init__(
        self, base: Path, nodes: int = 2, restarts: dict[str, Any] | None = None, **more: Any
    ) -> None:
        self.run = f"run-{secrets.token_hex(4)}"
        hosts = [f"gpu{n:02}" for n in range(1, nodes + 1)]
        self.cluster: dict[str, Any] = {
            "hosts": hosts,
            "addresses": [f"127.0.0.{n}" for n in range(1, nodes + 1)],
            "ports": [],
            "link": free_port(),
            "token": secrets.token_hex(32),
            **TIMES,
            **more,
        }
        self.restarts = {"restarts": {"delay": 0.2, **restarts}} if restarts else {}
        self.members = [self.member(base / host, rank, host) for rank, host in enumerate(hosts)]

    def member(self, folder: Path, rank: int, host: str) -> Member:
        launch = {
            "boot_id": "boot-1",
            "container": "",
            "host": host,
            "grace": 3.0,
            "timeout": 0,
            "env": {"ORCH_RUN_ID": self.run},
            "cluster": {"rank": rank, "port": free_port(), **self.cluster},
            **self.restarts,
        }
        return Member(folder, self.run, launch)

    def __getitem__(self, rank: int) -> Member:
        return self.members[rank]

    def start(self, *commands: str) -> None:
        """Start each with its command line for sh; one line is for all."""
        for rank, member in enumerate(self.members):
            member.start("sh", "-c", commands[rank % len(commands)])

    def run_all(self) -> None:
        for member in self.members:
            member.is_in("running")

    def ends(self) -> list[dict[str, Any]]:
        return [member.end() for member in self.members]

    def left(self) -> list[str]:
        """Return the processes of the run's commands."""
        token, found = f"ORCH_RUN_ID={self.run}".encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if token in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(pid)
            except OSError:
                continue
        return found

    def kill(self) -> None:
        for member in self.members:
            if member.process and member.process.poll() is None:
                os.killpg(member.process.pid, signal.SIGKILL)
                member.process.wait()
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path)
    yield workers
    workers.kill()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path, 3)
    yield workers
    workers.kill()
