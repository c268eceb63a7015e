"""What reality does to a run and to its caller, on real hosts: the truth is told and nothing is half done."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pexpect
import pytest

from tests.until import until

from .lab import Host
from .orch import Orch
from .test_path import deployed, processes, run_id

__all__ = ["deployed"]  # a fixture

WHERE = ("--hosts", "gpu01")


def row(orch: Orch, run: str) -> dict[str, Any]:
    rows = {r["run"]: r for r in json.loads(orch("ps", "gpu01", "--json").stdout)["rows"]}
    return dict(rows[run])


@contextlib.contextmanager
def started(orch: Orch, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that the test does something to; it is over at the end of the block."""
    process = subprocess.Popen(
        orch.argv(*words),
        cwd=orch.cwd,
        env=orch.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupted(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C; return what is said on stderr."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    return said


def test_words_of_any_length_and_bytes_arrive(deployed: Orch) -> None:
    words = [
        "a b",
        "'",
        '"$HOME"',
        "`id`",
        "x\ny",
        "",
        "ü",
        "x" * 100_000,
        "y" * 100_000,
        os.fsdecode(b"\xff"),
    ]
    digest = "hashlib.sha256(b'|'.join(map(os.fsencode, sys.argv[1:]))).hexdigest()"
    code = f"import hashlib, os, sys; print({digest})"
    said = deployed("train", *WHERE, "--", "python3", "-c", code, *words)
    assert hashlib.sha256(b"|".join(map(os.fsencode, words))).hexdigest() in said.stderr


def test_a_container_that_is_stopped_paused_or_gone(deployed: Orch, gpu01: Host) -> None:
    (name,) = gpu01.containers()
    run = run_id(deployed("train", "-d", *WHERE, "--", "sleep", "600").stdout)
    gpu01.docker("stop", "-t", "20", name)
    assert (row(deployed, run)["state"], row(deployed, run)["cause"]) == (
        "stopped",
        "by the stop of its container",
    )
    assert deployed("exec", "gpu01", "--", "echo", "in").stdout == "in\n", "it is started"

    gpu01.docker("pause", name)
    for words in (("exec", "gpu01", "--", "true"), ("train", *WHERE, "--", "true"), ("ssh", "gpu01", "true")):
        said = deployed(*words, code=1).stderr
        assert said == f"orch: gpu01: container {name} is paused. On the host: docker unpause {name}\n"
    gpu01.docker("unpause", name)

    run = run_id(deployed("train", "-d", *WHERE, "--", "sleep", "600").stdout)
    gpu01.docker("rm", "-f", name)
    assert (row(deployed, run)["state"], row(deployed, run)["cause"]) == ("lost", "container gone: removed")
    assert "was not there any more" in deployed("stop", run).stdout
    assert row(deployed, run)["state"] == "lost", "a stop changes nothing that was lost"
    said = deployed("exec", "gpu01", "--", "true", code=1).stderr
    assert said.endswith(f"container {name} is gone. Deploy again: orch deploy --hosts gpu01\n")


def test_an_engine_that_restarts_and_a_host_that_reboots(deployed: Orch, gpu01: Host) -> None:
    run = run_id(deployed("train", "-d", *WHERE, "--", "sleep", "600").stdout)
    gpu01.stop_docker()
    assert row(deployed, run)["state"] == "stopped"
    said = deployed("train", *WHERE, "--", "true", code=1).stderr
    assert said.startswith("orch: gpu01: the Docker daemon does not run. As root there: ")
    gpu01.start_docker()
    run = run_id(deployed("train", "-d", *WHERE, "--", "sleep", "600").stdout)
    gpu01.reboot()
    assert (row(deployed, run)["state"], row(deployed, run)["cause"]) == ("lost", "host rebooted")


def test_a_line_cut_while_a_launch_watches_leaves_one_run(deployed: Orch, gpu01: Host) -> None:
    with started(deployed, "train", *WHERE, "--name", "cut", "--", "sleep", "600") as process:
        until(lambda: "sleep 600" in processes(gpu01), "the start")
        gpu01.stop_sshd()
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 69
    run = run_id(said)
    assert said.endswith(f"Run {run} may have been started: orch ps gpu01\n")
    gpu01.start_sshd()
    assert deployed("ps", "gpu01", "-q", "--name", "cut").stdout == f"{run}\n"
    assert row(deployed, run)["state"] == "running"
    deployed("stop", "--now", run)


def test_ctrl_c_ends_the_watching_and_what_exec_began(deployed: Orch, gpu01: Host) -> None:
    run = run_id(deployed("train", "-d", *WHERE, "--name", "on", "--", "sleep", "600").stdout)
    program, *words = deployed.argv("tail", "on")
    terminal = pexpect.spawn(program, words, env=deployed.environment(), cwd=str(deployed.cwd), timeout=60)
    until(lambda: f"{run}/gpu01/training.log" in processes(gpu01), "the tail")
    terminal.sendintr()
    terminal.expect("the run goes on:   orch tail on      orch stop on\r\n")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130
    until(lambda: f"{run}/gpu01/training.log" not in processes(gpu01), "the end of the tail")
    assert row(deployed, run)["state"] == "running"

    with started(deployed, "exec", "gpu01", "--", "sh", "-c", "echo in; sleep 4321") as process:
        assert process.stdout
        assert process.stdout.readline() == "in\n"
        assert interrupted(process) == "\n"
    until(lambda: "sleep 4321" not in processes(gpu01), "the end of the command")

    with started(deployed, "exec", "gpu01", "--", "sh", "-c", "echo in; sleep 4321") as process:
        assert process.stdout
        assert process.stdout.readline() == "in\n"
        process.terminate()
        assert process.wait(timeout=60) == 143
    until(lambda: "sleep 4321" not in processes(gpu01), "the end of the command")
    deployed("stop", "--now", run)


@contextlib.contextmanager
def told_if_not(host: Host, when: str) -> Iterator[None]:
    """Where the block fails, tell what is on the host."""
    try:
        yield
    except AssertionError as error:
        there = host.run("docker ps -a --no-trunc; tail -n 3 /home/ana/.orch/*/*/audit.log; ps -eo pid,args")
        raise AssertionError(f"{when}: {error}\n{there.stdout}") from error


def test_a_deploy_that_is_broken_off_leaves_what_was_there(deployed: Orch, gpu01: Host) -> None:
    def size() -> str:
        return deployed("exec", "gpu01", "--", "df", "-h", "--output=size", "/dev/shm").stdout.split()[-1]

    def is_as_before() -> bool:
        return gpu01.docker("ps", "-aq", "--no-trunc") == before

    before = gpu01.docker("ps", "-aq", "--no-trunc")
    bigger = deployed.having(ORCH_SHM_SIZE="64m")
    for moment in ("start orch-ana-mnist", "prove it"):
        with started(bigger, "deploy", "--yes", *WHERE) as process:
            assert process.stderr
            for line in process.stderr:
                if moment in line:
                    break
            interrupted(process)
        # the start goes on without its caller, and stops what ran there first: that has 45 s to end
        with told_if_not(gpu01, moment):
            until(is_as_before, "what was there before", 180)
        assert size() == "8.0G"
    bigger("deploy", "--yes", *WHERE)
    assert size() == "64M"


def test_two_deploys_at_once_have_one_outcome(deployed: Orch, gpu01: Host) -> None:
    sizes = {"65M": deployed.having(ORCH_SHM_SIZE="65m"), "66M": deployed.having(ORCH_SHM_SIZE="66m")}
    with contextlib.ExitStack() as both:
        running = [both.enter_context(started(o, "deploy", "--yes", *WHERE)) for o in sizes.values()]
        said = [process.communicate(timeout=240)[1] for process in running]
    assert sorted(process.returncode for process in running) == [0, 75]
    (refused,) = (s for s, process in zip(said, running, strict=True) if process.returncode)
    assert refused.endswith("what is there has changed since the plan was made. Deploy again.\n")
    assert len(gpu01.containers(all=True)) == 1
    (won,) = (s for s, process in zip(sizes, running, strict=True) if not process.returncode)
    assert won in deployed("exec", "gpu01", "--", "df", "-h", "/dev/shm").stdout


def test_a_dumb_terminal_sees_the_gpus_too(orch: Orch, gpu01: Host) -> None:
    program, *words = orch.having(TERM="dumb").argv("gpu-status", "--watch", "1", "gpu01")
    environ = orch.having(TERM="dumb").environment()
    terminal = pexpect.spawn(program, words, env=environ, cwd=str(orch.cwd), timeout=60)
    terminal.expect("gpu01   no GPU")
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130


@pytest.mark.parametrize("cut", ["sshd", "link"])
def test_a_log_is_whole_across_a_cut(deployed: Orch, gpu01: Host, cut: str) -> None:
    """All but the first lines come once it is followed."""
    waits = '[ $i -ne 2 ] || until [ -e "$ORCH_RUN_DIR/go" ]; do sleep 0.1; done'
    loop = f"for i in $(seq 80); do echo line $i; {waits}; sleep 0.05; done"
    run = run_id(deployed("train", "-d", *WHERE, "--", "sh", "-c", loop).stdout)
    with started(deployed, "tail", "--raw", run) as process:
        until(lambda: f"{run}/gpu01/training.log" in processes(gpu01), "the tail")
        gpu01.run(f"touch /home/ana/.orch/ana/mnist/runs/{run}/go", user="ana")
        if cut == "sshd":
            gpu01.stop_sshd()
            gpu01.start_sshd()
        else:
            with gpu01.unreachable():
                until(
                    lambda: (
                        "line 40"
                        in gpu01.run(f"cat /home/ana/.orch/ana/mnist/runs/{run}/gpu01/training.log").stdout
                    ),
                    "line 40",
                )
        out, said = process.communicate(timeout=180)
    assert out == "".join(f"line {i}\n" for i in range(1, 81))
    assert process.returncode == 0, said
