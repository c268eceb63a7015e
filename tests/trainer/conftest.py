"""The trainer in a process of its own, as a person starts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trainer import venvs

CHECKOUT = Path(__file__).resolve().parents[2]
LIMIT = 240
"""Seconds that no training here needs, even on a busy machine."""


@dataclass(frozen=True)
class Trainer:
    """A python, and the empty folder that the trainer works in."""

    python: Path
    cwd: Path

    def environ(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join([*more.pop("path", "").split(), str(CHECKOUT)])
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.python), *words],
            cwd=self.cwd,
            env=self.environ(**environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def python_runs(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words, **environ) as process:
            try:
                out, err = process.communicate(timeout=LIMIT)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def trains(self, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.python_runs("-m", "trainer", *flags, **environ)

    def writes(self, name: str, code: str) -> str:
        """A script in the working folder, for this python to run."""
        (self.cwd / name).write_text(code)
        return name


def own_words(stderr: str) -> Sequence[str]:
    """The lines on stderr that the trainer wrote; the newest TensorFlow cannot be hushed wholly."""
    return [line for line in stderr.splitlines() if line.startswith("trainer: ")]


def python_with(wanted: venvs.Wanted) -> Path:
    try:
        return venvs.environment(wanted)
    except venvs.Missing as missing:
        if os.environ.get("CI") == "true" and not excused(wanted):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def excused(wanted: venvs.Wanted) -> bool:
    """TensorFlow 2.9.3 may be missing where no Python is old enough: the fleet's image has it."""
    return wanted is venvs.OLD and not any(map(venvs.candidates, wanted.pythons))


@pytest.fixture(
    params=[
        pytest.param(wanted, id=name, marks=[pytest.mark.tensorflow, pytest.mark.timeout(1800)])
        for name, wanted in [("tf2.9.3", venvs.OLD), ("newest", venvs.NEWEST)]
    ]
)
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> Trainer:
    """The trainer under each TensorFlow."""
    return Trainer(python_with(request.param), tmp_path)


@pytest.fixture
def newest(tmp_path: Path) -> Trainer:
    """The trainer under the newest TensorFlow, for what doesn't differ."""
    return Trainer(python_with(venvs.NEWEST), tmp_path)
