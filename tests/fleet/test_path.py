"""The main job, whole, on real hosts: from the deploy to the end, and what may go wrong on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from .lab import Host
from .orch import Orch


def run_id(said: str) -> str:
    found = re.search(r"\d{8}-\d{4}-[a-z0-9-]+-[0-9a-f]{4}", said)
    assert found, said
    return found[0]


def processes(host: Host) -> str:
    return host.run("ps -eo pid,args").stdout


@pytest.mark.parametrize("account", ["root", "ana"])
def test_the_whole_path(orch: Orch, gpu01: Host, account: str, tmp_path: Path) -> None:
    orch = orch.using(account).having(ORCH_PROJECT=f"mnist {account}")
    where = ("--hosts", "gpu01")

    said = orch("deploy", "--yes", *where)
    assert re.search(r"gpu01   ready in \d+ s   Python 3\.9\.2   TensorFlow 2\.9\.3", said.stdout)
    assert ("user ana (1500)" if account == "ana" else "user orch (1000)") in said.stdout

    counter = gpu01.counter()
    assert "unchanged" in orch("deploy", *where).stdout
    counts = counter.read()
    assert counts.connections == 1
    assert counts.execs <= 2

    said = orch("train", "--wait", *where, "--name", "first", "--", "python3", "train.py", "--epochs=2")
    first = run_id(said.stdout)
    assert "Epoch 2/2" in said.stdout
    assert "trained" in said.stdout
    assert f"{first} succeeded" in said.stderr

    counter = gpu01.counter()
    second = run_id(orch("train", "-d", *where, "--name", "second", "--", "sleep", "600").stdout)
    assert (counter.read().connections, counter.read().execs) == (1, 1)

    counter = gpu01.counter()
    rows = {r["name"]: r for r in json.loads(orch("ps", "gpu01", "--json").stdout)["rows"]}
    assert (counter.read().connections, counter.read().execs) == (1, 1)
    assert (rows["first"]["state"], rows["first"]["exit_status"]) == ("succeeded", 0)
    assert (rows["second"]["run"], rows["second"]["state"]) == (second, "running")

    assert "gpu01" in orch("gpu-status", "gpu01").stdout
    assert f"{second}   stopped" in orch("stop", "second").stdout
    assert "sleep 600" not in processes(gpu01)
    rows = {r["name"]: r for r in json.loads(orch("ps", "gpu01", "--json").stdout)["rows"]}
    assert rows["second"]["state"] == "stopped"
    assert rows["second"]["cause"].startswith("by ")

    tail = orch("tail", "first").stdout
    assert tail.endswith("trained\n")
    assert "checkpoints" in orch("ls", "first").stdout
    orch("fetch", "first", "--to", str(tmp_path / "got"))
    assert list((tmp_path / "got").rglob("02.ckpt.index"))

    inside = orch("exec", "gpu01", "--", "python3", "-c", "import tensorflow as tf; print(tf.__version__)")
    assert inside.stdout == "2.9.3\n"
    assert "02.ckpt.index" in orch("exec", "first", "--", "ls", "checkpoints").stdout
    assert orch("exec", "gpu01", "--", "sh", "-c", "exit 7", code=7).stdout == ""

    shell(orch, "gpu01")
    orch("down", "--yes", *where)
    assert gpu01.containers() == []
    assert "supervise.py" not in processes(gpu01)
    assert "trained" in orch("tail", "first").stdout, "a log outlives the container"


def shell(orch: Orch, host: str) -> None:
    """Type into a real terminal joined to a shell in the container."""
    program, *words = orch.argv("ssh", host)
    terminal = pexpect.spawn(
        program, words, env=orch.environment(), cwd=str(orch.cwd), timeout=60, dimensions=(41, 123)
    )
    terminal.sendline("echo $((40 + 2)) $PWD; stty size; exit 5")
    terminal.expect(r"42 /workspace\r\n41 123\r\n")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 5


@pytest.fixture
def deployed(orch: Orch, gpu01: Host) -> Iterator[Orch]:
    """The person's container on gpu01."""
    orch("deploy", "--yes", "--hosts", "gpu01")
    yield orch
    orch("down", "--yes", "--replace", "--hosts", "gpu01", code=None)


def test_commands_that_end_at_once_are_told(deployed: Orch) -> None:
    train = ("train", "--hosts", "gpu01", "--")
    said = deployed(*train, "no-such-program", code=127)
    assert said.stderr.splitlines()[-1].endswith("(exit status 127 is the run's)")
    assert "cannot run 'no-such-program': No such file or directory" in said.stderr

    said = deployed(*train, "python3", "-c", "import time; time.sleep(2); import no_such_module", code=1)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in said.stderr
    assert "failed after" in said.stderr.splitlines()[-1]

    said = deployed("train", "-d", "--hosts", "gpu01", "--", "no-such-program", code=127)
    assert "no-such-program" in said.stderr


def test_a_training_goes_on_when_its_line_is_cut(deployed: Orch, gpu01: Host) -> None:
    run = run_id(
        deployed("train", "-d", "--hosts", "gpu01", "--", "sh", "-c", "sleep 3; echo survived").stdout
    )
    with gpu01.unreachable():
        said = deployed("ps", "gpu01", code=69)
        assert said.stderr.startswith("orch: gpu01: ")
        assert re.fullmatch(rf"gpu01   the newest run from here: {run}   .*", said.stderr.splitlines()[1])
        assert said.stderr.count("\n") == 2
    assert deployed("tail", run).stdout.endswith("survived\n")


def test_a_deploy_ends_no_live_run(deployed: Orch, gpu01: Host) -> None:
    run = run_id(deployed("train", "-d", "--hosts", "gpu01", "--", "sleep", "600").stdout)
    deployed("down", "--yes", "--hosts", "gpu01", code=75)
    bigger = deployed.having(ORCH_SHM_SIZE="1g")
    bigger("deploy", "--yes", "--hosts", "gpu01")
    rows = {r["run"]: r for r in json.loads(deployed("ps", "gpu01", "--json").stdout)["rows"]}
    assert rows[run]["state"] == "running"
    assert "1.0G" in bigger("exec", "gpu01", "--", "df", "-h", "/dev/shm").stdout
    deployed("stop", "--now", run)


def test_a_full_disk_is_told_and_leaves_nothing(orch: Orch, gpu01: Host) -> None:
    with gpu01.small_disk("/data", "64m"):
        gpu01.run("chown ana /data")
        orch = orch.having(ORCH_ROOT="/data/orch")
        orch("deploy", "--yes", "--hosts", "gpu01")
        try:
            orch("train", "--hosts", "gpu01", "--", "true")
            before = gpu01.run("ls /data/orch/*/*/runs").stdout
            gpu01.fill("/data")
            said = orch("train", "--hosts", "gpu01", "--", "true", code=1)
            assert "No space left on device" in said.stderr
            assert said.stderr.count("orch: gpu01: ") == 1
            assert gpu01.run("ls /data/orch/*/*/runs").stdout == before
        finally:
            gpu01.free("/data")
            orch("down", "--yes", "--replace", "--hosts", "gpu01", code=None)


def test_it_all_works_from_cron(deployed: Orch, gpu01: Host) -> None:
    """No terminal, no agent, no PATH to speak of, ASCII, stdin closed, another folder."""
    import subprocess

    program = deployed.argv()[0]
    home, project = deployed.home, deployed.cwd
    inventory = deployed.environment()["ORCH_INVENTORY"]
    line = (
        f"cd {project} && {program} train --wait --hosts gpu01 --name night -- python3 -c "
        '\'import sys; print("\\u00fcber", sys.stdin.read() == "")\' && cd / && '
        f"{program} ps gpu01 && {program} tail night && {program} gpu-status gpu01 && {program} stop night"
    )
    environ = ["env", "-i", f"HOME={home}", "LOGNAME=ana", "USER=ana", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"]
    done = subprocess.run(
        [*environ, f"ORCH_INVENTORY={inventory}", "/bin/sh", "-c", f"exec <&-; {line}"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    said = done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, said
    assert "Traceback" not in said
    assert "succeeded" in said
