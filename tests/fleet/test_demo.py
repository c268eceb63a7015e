"""`make demo` on a host that has Docker, by an ordinary account, from a checkout without leftovers."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Host

TOP = Path(__file__).parents[2]
PARTS = (
    "Makefile",
    "tools",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "orchestrator",
    "templates",
    "trainer",
)
MINUTES = 10
"""For the demo: it installs orch's requirements from PyPI, builds an image and trains."""


@pytest.fixture
def checkout(gpu01: Host) -> Iterator[Host]:
    """The host, with this checkout in ana's home."""
    words = ["tar", "-cz", "--exclude=__pycache__", "-C", str(TOP), *PARTS]
    packed = subprocess.run(words, check=True, capture_output=True).stdout
    gpu01.run(
        "mkdir orch && base64 -d | tar -xz -C orch", user="ana", input=base64.b64encode(packed).decode()
    )
    yield gpu01
    gpu01.run("rm -rf orch .cache", user="ana")


def test_make_demo_trains_and_leaves_nothing(checkout: Host) -> None:
    before = checkout.images(), checkout.containers(all=True)
    pip = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]
    done = checkout.run(f"cd orch && {shlex.join(['env', *pip, 'make', 'demo'])} 2>&1",
                        user="ana", check=False, timeout=MINUTES * 60)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "demo: engine docker\n" in done.stdout
    accuracy = re.search(
        r"^demo: test accuracy (\S+), of two workers (\S+), \d+ s in all; all of it is removed again$",
        done.stdout,
        re.M,
    )
    assert accuracy, done.stdout
    assert min(float(accuracy[1]), float(accuracy[2])) >= 0.9
    assert re.search(r"^run     \S+ on here, there$", done.stdout, re.M)
    assert (checkout.images(), checkout.containers(all=True)) == before
    assert checkout.run("ls -A .cache/orch", user="ana").stdout == ""
    assert "orch/demo-" not in checkout.run("ps -eo args").stdout
