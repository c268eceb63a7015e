"""Virtual environments with real TensorFlows, made once and kept outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CACHE = Path.home() / ".cache" / "orch-tests"
WHOLE = "whole"
"""The marker file of an environment whose packages are all there."""


@dataclass(frozen=True)
class Wanted:
    """A TensorFlow, the Pythons it may run on (best first), and what pip needs to know."""

    name: str
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]


OLD = Wanted(
    "TensorFlow 2.9.3", ("3.8", "3.9", "3.10"), ("tensorflow-cpu==2.9.3", "numpy<1.24", "protobuf<3.20")
)
NEWEST = Wanted(
    "the newest TensorFlow",
    ("3.13", "3.12", "3.11", "3.10"),
    ("tensorflow-cpu>=2.21", "tensorboard", "tf_keras"),
)


class Missing(Exception):
    """There is no such environment here, and none can be made."""


def environment(wanted: Wanted) -> Path:
    """Return the python of an environment with this TensorFlow, made first if need be. Raises Missing."""
    interpreter, version = find(wanted)
    recipe = "\n".join([version, *wanted.requirements])
    folder = CACHE / f"venv-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / WHOLE).exists():
            make(folder, interpreter, wanted)
    return folder / "bin" / "python"


def find(wanted: Wanted) -> tuple[str, str]:
    """Return the best interpreter here for this TensorFlow, and its full version. Raises Missing."""
    for python in wanted.pythons:
        for candidate in candidates(python):
            version = version_of(candidate)
            if version.startswith(f"{python}."):
                return candidate, version
    raise Missing(f"{wanted.name} was not tested: no Python {' or '.join(wanted.pythons)} on this machine")


def candidates(python: str) -> list[str]:
    """Where a Python of this minor version may lie."""
    program = f"python{python}"
    kept = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/{program}"), reverse=True)
    found = [shutil.which(program), shutil.which(program, path="/usr/bin:/usr/local/bin")]
    return [path for path in [*map(str, kept), *found] if path]


def version_of(interpreter: str) -> str:
    """Return its version, or nothing when it doesn't run (a pyenv shim) or can make no environments."""
    script = "import ensurepip, platform, venv; print(platform.python_version())"
    answer = subprocess.run([interpreter, "-c", script], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def make(folder: Path, interpreter: str, wanted: Wanted) -> None:
    """Make the environment anew and mark it as whole. Raises Missing with pip's last words."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [str(folder / "bin" / "pip"), "install", "--quiet", *wanted.requirements]
    for command in ([interpreter, "-m", "venv", str(folder)], words):
        done = subprocess.run(command, capture_output=True, text=True, env=clean(), check=False)
        if done.returncode:
            last = (done.stderr.strip() or "no answer").splitlines()[-1]
            raise Missing(f"{wanted.name} was not tested: {' '.join(command[:3])} failed: {last}")
    (folder / WHOLE).touch()


def clean() -> dict[str, str]:
    """The environment without what would lead another Python astray."""
    astray = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in astray}
