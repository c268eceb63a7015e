"""The program as a process: streams that were closed, that nobody reads or that are full, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.until import until

EVERYTHING = (0, 1, 2)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("[größe大]\ngpu01\n")
    return tmp_path


def environment(here: Path) -> dict[str, str]:
    return {"HOME": str(here), "PYTHONPATH": os.getcwd(), "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}


def orch(here: Path, *words: str, close: tuple[int, ...] = (), env: dict[str, str] = {}, **more: Any) -> Any:
    def closed() -> None:
        for number in close:
            os.close(number)

    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=here,
        env={
            "HOME": str(here),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.getcwd(),
            "LANG": "C.UTF-8",
            **env,
        },
        preexec_fn=closed if close else None,
        timeout=30,
        check=False,
        **more,
    )


@pytest.mark.parametrize("words", [("hosts",), ("hosts", "--json"), ("--help",)])
def test_nobody_reads_the_output_any_more(here: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = orch(here, *words, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", [("hosts",), ("--help",)])
def test_a_full_disk_under_the_output_is_told(here: Path, words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = orch(here, *words, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"orch: No space left on device\n")


@pytest.mark.parametrize("close", [(number,) for number in EVERYTHING] + [EVERYTHING])
def test_closed_streams_are_no_failure(here: Path, close: tuple[int, ...]) -> None:
    done = orch(here, "hosts", close=close, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("größe大" in done.stdout.decode()) == (1 not in close)


def test_what_the_locale_cannot_write_is_escaped(here: Path) -> None:
    done = orch(here, "hosts", env={"PYTHONIOENCODING": "latin-1"}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "größe\\u5927" in done.stdout.decode("latin-1")


def test_ctrl_c_ends_what_exec_started(here: Path) -> None:
    """Neither sshd nor an engine passes it on."""
    words = (
        "exec",
        "--inventory",
        "local.ini",
        "--on-host",
        "here",
        "--",
        "sh",
        "-c",
        "sleep 60 & echo $!; wait",
    )
    (here / "local.ini").write_text("here ansible_connection=local\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=here,
        env=environment(here),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    sleeping = process.stdout.readline().decode().strip()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"\n")
    assert process.returncode == 130
    until(lambda: not alive(sleeping), "its end")


def alive(pid: str) -> bool:
    try:
        return Path("/proc", pid, "cmdline").read_bytes() != b""  # a zombie has none
    except FileNotFoundError:
        return False
