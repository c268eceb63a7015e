"""Runs a fact's script through a real shell, with a PATH of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.facts.question import Fact, question
from orchestrator.hosts.command import framed

T = TypeVar("T")

SHELLS = [s for s in (["dash"], ["busybox", "sh"], ["bash", "--posix"]) if shutil.which(s[0])] or [["sh"]]

BUSYBOX = shutil.which("busybox")


def program(folder: Path, name: str, text: str) -> Path:
    """Write an executable sh script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def only_busybox(folder: Path) -> tuple[list[str], str]:
    """Return a shell and a PATH for it with nothing else than busybox."""
    assert BUSYBOX
    folder.mkdir(exist_ok=True)
    subprocess.run([BUSYBOX, "--install", "-s", str(folder)], check=True)
    return [str(folder / "sh")], str(folder)


def ask(
    fact: Fact[T],
    shell: list[str],
    *,
    path: str,
    values: Mapping[str, Any] | None = None,
    **environ: str,
) -> T:
    asked = question(fact, values=values)
    frame = framed(asked.script)
    done = subprocess.run(
        [*shell, "-s"],
        input=frame.stdin,
        capture_output=True,
        env={"HOME": os.environ.get("HOME", "/"), "LC_ALL": "C", **environ, "PATH": path},
        timeout=60,
        check=False,
    )
    assert done.stderr.partition(frame.begin)[2].partition(frame.end)[0] == b""
    return fact.parse(asked.sections(done.stdout.decode("utf-8", "replace"))[fact.name])
