"""Folders of runs as hosts have them, and a machine that answers about them through a real sh."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine, text_of
from tests.cli.calling import Called, call

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
NOW = float(int(time.time()))
GPUS = ("GPU-a0", "GPU-a1")


@dataclass
class RunFolders:
    """Hosts gpu01 and gpu02 of ana's project mnist; each has a root of its own below `folder`."""

    folder: Path
    smi: dict[str, str] = field(default_factory=dict)  # what nvidia-smi says, by a word of its arguments
    silent: dict[str, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = [f"{name} root='{self.root(name)}'" for name in ("gpu01", "gpu02")]
        settings = "[all:vars]\nperson=ana\nproject=mnist\nengine=host\n"
        (self.folder / "hosts.ini").write_text("\n".join(lines) + "\n" + settings)

    def root(self, host: str) -> Path:
        return self.folder / "hosts" / host / "a root"

    def add(
        self,
        run: str,
        state: Mapping[str, Any],
        *,
        host: str = "gpu01",
        log: str = "",
        end: Mapping[str, Any] | None = None,
        person: str = "ana",
        name: str | None = "nightly",
        gpus: tuple[str, ...] = GPUS,
        environment: Mapping[str, Any] = {},
        files: Mapping[str, str] = {},
        **spec: Any,
    ) -> Path:
        """Lay out a run of one worker, or one more worker of it; return the worker's folder.

        `files` are those of its bundle, written as an upload writes them.
        """
        place = self.root(host) / person / "mnist"
        worker = place / "runs" / run / host
        worker.mkdir(parents=True)
        fields = {
            "run": run, "argv": ["python3", "train.py"], "hosts": [host], "person": person,
            "project": "mnist",
            "bundle": "9f3c" * 16, "name": name, "asked": float(state.get("started", NOW)), "version": 1,
        }  # fmt: skip
        (worker.parent / "spec.json").write_text(json.dumps({**fields, **spec}) + "\n")
        given = {"image": "tensorflow/tensorflow:2.9.3-gpu", "env": "e1", "engine": "docker", **environment}
        record = {
            "gpus": list(gpus),
            "indices": list(range(len(gpus))),
            "boot_id": BOOT,
            "environment": given,
        }
        (worker / "worker.json").write_text(json.dumps(record) + "\n")
        (worker / "state.json").write_text(json.dumps({"boot_id": BOOT, **state}) + "\n")
        (worker / "training.log").write_text(log)
        (worker / "lock").touch()
        if end is not None:
            (worker / "end.json").write_text(json.dumps(end))
        self._bundle(place / "bundles" / ({**fields, **spec}["bundle"]), files)
        return worker

    def _bundle(self, folder: Path, files: Mapping[str, str]) -> None:
        from hashlib import sha256

        from orchestrator.files.archive import time_of

        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
            moment = time_of(sha256(content.encode()).hexdigest())
            os.utime(folder / path, (moment, moment))

    def __call__(self, *words: str, code: int | None = 0, environ: Mapping[str, str] = {}) -> Called:
        """Run `orch WORDS`; every script goes through sh."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        if self.smi:
            cases = "\n".join(f"*{word}*) cat '{self._answer(word)}' ;;" for word in self.smi)
            (tools / "nvidia-smi").write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\n')
            (tools / "nvidia-smi").chmod(0o755)

        def through_sh(asked: Any) -> Result:
            env = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(self.folder)}
            done = subprocess.run(["sh", "-c", text_of(asked)], capture_output=True, check=False, env=env)
            return Result(done.returncode, done.stdout, done.stderr)

        def prepare(machine: FakeMachine) -> None:
            machine.answer(re.compile("", re.DOTALL), through_sh)

        said = call(self.folder, *words, prepare=prepare, failing=self.silent, environ=environ)
        assert code is None or said.status == code, (said.status, said.out, said.err)
        return said

    def _answer(self, word: str) -> Path:
        path = self.folder / f"smi-{word.strip('-')}"
        path.write_text(self.smi[word])
        return path


def state(
    word: str, cause: Mapping[str, Any] = {}, *, began: float, ended: float | None = None, **more: Any
) -> dict[str, Any]:
    """What state.json holds; times are seconds before now."""
    found = {"state": word, "started": NOW - began, "heartbeat": NOW - (ended or 0), **more}
    if ended is not None:
        found |= {"ended": NOW - ended, "cause": dict(cause)}
    return found
