"""The GPU script itself, in real shells, against a stand-in for nvidia-smi."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.facts.gpu import GPUS, GpuReport
from orchestrator.facts.question import question
from orchestrator.hosts.command import framed

from .shells import BUSYBOX, SHELLS, ask, only_busybox, program

in_each_shell = pytest.mark.parametrize("shell", SHELLS, ids=[s[0] for s in SHELLS])

ROW = "0, GPU-a, Tesla T4, 450.80.02, 15109, 0, 0, 40, 9.65"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    return tmp_path / "bin"


def report(bin_: Path, shell: list[str]) -> GpuReport:
    return ask(GPUS, shell, path=f"{bin_}:{SYSTEM_PATH}")


@in_each_shell
def test_rows_come_back(bin_: Path, shell: list[str]) -> None:
    program(bin_, "nvidia-smi", f'case "$*" in *query-gpu*) echo "{ROW}, [N/A]" ;; esac')
    answer = report(bin_, shell)
    assert [g.name for g in answer.gpus] == ["Tesla T4"]
    assert (answer.problem, answer.warnings) == (None, ())


@in_each_shell
def test_only_single_queries_of_old_fields_are_made(bin_: Path, tmp_path: Path, shell: list[str]) -> None:
    program(
        bin_, "nvidia-smi", f'echo "$*" >>{tmp_path}/calls; case "$*" in *query-gpu*) echo "{ROW}, -";; esac'
    )
    report(bin_, shell)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert all("--format=csv,noheader,nounits" in call and " -l" not in call for call in calls)


@in_each_shell
def test_a_field_that_the_driver_does_not_know_is_dropped_and_asked_again(
    bin_: Path, shell: list[str]
) -> None:
    program(
        bin_,
        "nvidia-smi",
        'case "$*" in\n'
        "*mig.mode*) printf 'Field \"mig.mode.current\" is not a valid field to query.\\n\\n'; exit 2 ;;\n"
        f'*query-gpu*) echo "{ROW}" ;;\nesac',
    )
    answer = report(bin_, shell)
    assert answer.gpus[0].power_w == 9.65
    assert answer.problem is None


@in_each_shell
def test_what_stdout_says_is_the_reason_and_stdin_is_left_alone(bin_: Path, shell: list[str]) -> None:
    program(bin_, "nvidia-smi", "cat >/dev/null; echo 'Failed to initialize NVML: Unknown Error'; exit 255")
    assert report(bin_, shell).problem == "Failed to initialize NVML: Unknown Error"


@in_each_shell
def test_one_dead_gpu_does_not_hide_the_live_ones(bin_: Path, shell: list[str]) -> None:
    dead = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error"
    program(
        bin_,
        "nvidia-smi",
        f'case "$*" in\n*"-i 0"*) echo "{ROW}, [N/A]" ;;\n*"-i 1"*) echo "{dead}"; exit 255 ;;\n'
        f'*"-i "*) echo "No devices were found"; exit 6 ;;\n*) echo "{dead}"; exit 255 ;;\nesac',
    )
    answer = report(bin_, shell)
    assert [(g.index, g.fault) for g in answer.gpus] == [(0, None), (1, dead)]
    assert answer.problem is None


@in_each_shell
def test_no_nvidia_smi(bin_: Path, shell: list[str]) -> None:
    bin_.mkdir()
    answer = report(bin_, shell)
    if not any(Path(p, "nvidia-smi").exists() for p in SYSTEM_PATH.split(":")):
        assert answer.problem is not None
        assert "nvidia-smi not found" in answer.problem


@in_each_shell
def test_an_nvidia_smi_that_ignores_term_is_ended(bin_: Path, tmp_path: Path, shell: list[str]) -> None:
    # The limit of 20 s is shortened by a `timeout` of our own that keeps its other words.
    program(bin_, "nvidia-smi", "trap '' TERM\nwhile :; do sleep 5; done")
    program(bin_, "timeout", 'shift 3; exec /usr/bin/timeout -k 0.2 0.2 "$@"')
    began = time.monotonic()
    answer = report(bin_, shell)
    assert answer.problem == "nvidia-smi did not answer in 20 s"
    assert time.monotonic() - began < 50


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[int]:
    """A child of a process whose command line is a supervisor's; yields the child's pid."""
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=0)\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    script = tmp_path / "supervise.py"
    script.write_text(code)
    words = ["--person", "Ana B", "--run", "20261130-0214-a-b-7f3a", "--", "x", "--run", "secret"]
    running = subprocess.Popen(
        [sys.executable, str(script), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    yield int(running.stdout.readline())
    running.communicate()


@in_each_shell
def test_a_process_is_named_by_the_supervisor_above_it(bin_: Path, shell: list[str], supervised: int) -> None:
    program(
        bin_,
        "nvidia-smi",
        f'case "$*" in\n*query-gpu*) echo "{ROW}, [N/A]" ;;\n'
        f'*compute-apps*) echo "GPU-a, {supervised}, python3, 512"\n'
        'echo "GPU-a, 999999999, gone, 1" ;;\nesac',
    )
    process, gone = report(bin_, shell).gpus[0].processes
    assert (process.person, process.run_id, process.run_name) == ("Ana B", "20261130-0214-a-b-7f3a", "a-b")
    assert process.user == _me()
    assert process.seconds is not None
    assert 0 <= process.seconds < 60
    assert not process.outside
    assert (gone.pid, gone.user, gone.outside) == (999999999, None, True)


def _me() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


@in_each_shell
def test_words_of_other_command_lines_stay_on_the_host(bin_: Path, shell: list[str], supervised: int) -> None:
    program(bin_, "nvidia-smi", f'case "$*" in *apps*) echo "GPU-a, {supervised}, p, 1" ;; esac')
    asked = framed(question(GPUS).script).stdin
    environ = {**os.environ, "PATH": f"{bin_}:{SYSTEM_PATH}"}
    done = subprocess.run([*shell, "-s"], input=asked, capture_output=True, env=environ, check=True)
    assert b"Ana B" in done.stdout
    assert b"secret" not in done.stdout
    assert b"sys.stdin.read" not in done.stdout


@in_each_shell
def test_docker_is_not_asked_when_no_process_is_in_a_container(
    bin_: Path, shell: list[str], supervised: int, tmp_path: Path
) -> None:
    program(
        bin_,
        "nvidia-smi",
        f'case "$*" in *query-gpu*) echo "{ROW}, -" ;; *apps*) echo "GPU-a, {supervised}, p, 1" ;; esac',
    )
    program(bin_, "docker", f"echo called >{tmp_path}/docker")
    report(bin_, shell)
    assert not (tmp_path / "docker").exists()


@pytest.mark.skipif(not BUSYBOX, reason="busybox is not installed here")
def test_with_nothing_but_busybox(bin_: Path, tmp_path: Path, supervised: int) -> None:
    program(
        bin_,
        "nvidia-smi",
        f'case "$*" in *query-gpu*) echo "{ROW}, -" ;; *apps*) echo "GPU-a, {supervised}, p, 1" ;; esac',
    )
    shell, path = only_busybox(tmp_path / "busybox")
    (process,) = ask(GPUS, shell, path=f"{bin_}:{path}").gpus[0].processes
    assert (process.user, process.person, process.run_name) == (_me(), "Ana B", "a-b")
