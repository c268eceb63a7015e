"""Bundles, logs and files over real SSH: whole, byte for byte, and clean after every cut."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.base import Machine
from orchestrator.hosts.connect import connect
from orchestrator.inventory import Host as Known
from orchestrator.inventory import load
from orchestrator.run.code.bundle import collect
from orchestrator.run.code.upload import upload
from orchestrator.run.code.walk import walk
from orchestrator.run.spec import RunSpec
from tests.until import until

from .lab import Host
from .orch import Orch

PLACE = "~/.orch/ana/mnist"
SPEC = RunSpec("20261130-0214-nightly-7f3a", ("sh",), ("gpu01",), "ana", "mnist", "9f3c", name="nightly")
WORKER = f"/home/ana/.orch/ana/mnist/runs/{SPEC.run}/gpu01"

# What a supervisor does, less all its care: the lock, the log, the last word.
WRITER = f"""
mkdir -p {WORKER} && cd {WORKER} || exit
echo '{SPEC.text()}' > ../spec.json && echo '{{}}' > worker.json && : > lock
echo '{{"state": "running"}}' > state.json
setsid flock -n lock sh -c 'i=0
    while [ $i -lt 250 ]; do
        seq $((i * 1000)) $((i * 1000 + 999)) >> training.log; i=$((i + 1)); sleep 0.02
    done
    printf "the last words" >> training.log
    echo "{{\\"state\\": \\"failed\\", \\"exit_code\\": 3, \\"ended\\": 5}}" > state.json
    ' </dev/null >/dev/null 2>&1 &
"""

FOLLOWS = f"-f {WORKER}/training.log"


@pytest.fixture
def known(orch: Orch, monkeypatch: pytest.MonkeyPatch) -> Known:
    """gpu01 as the inventory has it, for the account ana."""
    for name, value in orch.environment().items():
        monkeypatch.setenv(name, value)
    (host,) = load([orch.fleet.client.inventory("ana")], environ=os.environ).select(["gpu01"]).hosts
    return host


@pytest.fixture
def machine(known: Known) -> Iterator[Machine]:
    with connect(known) as machine:
        yield machine


@pytest.fixture(autouse=True)
def nothing_left(gpu01: Host) -> Iterator[None]:
    """Nothing of ana's, before and after: the tests of other files leave their runs and bundles."""
    gpu01.run("rm -rf /home/ana/.orch")
    yield
    gpu01.run(f"cd {WORKER} && touch go-1 go-200", user="ana", check=False)
    until(lambda: "training.log" not in processes(gpu01), "the end of all that reads the log")
    gpu01.run("rm -rf /home/ana/.orch")


def processes(host: Host) -> str:
    return host.run("ps -eo args").stdout


def followers(host: Host) -> set[str]:
    """The pids of what follows the log."""
    lines = host.run("ps -eo pid,args").stdout.splitlines()
    return {line.split()[0] for line in lines if FOLLOWS in line}


def writes(host: Host, pauses: tuple[int, ...]) -> None:
    """Start the writer, which waits for the file go-N before it writes its N thousandth line."""
    loop = "while [ $i -lt 250 ]; do"
    waits = [f"[ $i -ne {n} ] || until [ -e go-{n} ]; do sleep 0.05; done;" for n in pauses]
    host.run(WRITER.replace(loop, " ".join([loop, *waits])), user="ana")


def sessions(host: Host) -> list[str]:
    """The pids of sshd's sessions of ana."""
    return host.run("ps -eo pid,args | awk '/[s]shd: ana/ { print $1 }'").stdout.split()


def cut_sessions(host: Host) -> None:
    if pids := sessions(host):
        host.run(f"kill -9 {' '.join(pids)}", check=False)


def test_no_byte_of_a_log_is_lost_across_cuts(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    """Each cut comes when the log is followed, and the last lines when there have been all cuts."""
    writes(gpu01, pauses=(1, 200))
    line = orch.argv("tail", "--raw", "nightly", "--hosts", "gpu01")
    with (tmp_path / "out").open("wb") as out:
        watcher = subprocess.Popen(
            line, stdout=out, stderr=subprocess.PIPE, env=orch.environment(), cwd=orch.cwd
        )
    until(lambda: (tmp_path / "out").stat().st_size, "the first lines")
    gpu01.run(f"touch {WORKER}/go-1", user="ana")
    seen: set[str] = set()
    for _ in range(3):
        until(lambda: followers(gpu01) - seen, "the tail")
        seen |= followers(gpu01)
        cut_sessions(gpu01)
    gpu01.run(f"touch {WORKER}/go-200", user="ana")
    _, words = watcher.communicate(timeout=120)
    said = (tmp_path / "out").read_bytes()
    assert said == (gpu01.disk / WORKER[1:] / "training.log").read_bytes()
    assert said.endswith(b"\n249999\nthe last words")
    assert words.count(b"orch: gpu01: connection lost, connecting again\n") >= 3
    assert watcher.returncode == 3, words


def test_a_watcher_that_is_killed_leaves_nothing_behind(orch: Orch, gpu01: Host) -> None:
    writes(gpu01, pauses=(200,))
    line = orch.argv("tail", "nightly", "--hosts", "gpu01")
    watcher = subprocess.Popen(line, stdout=subprocess.PIPE, env=orch.environment(), cwd=orch.cwd)
    assert watcher.stdout
    assert watcher.stdout.readline() == b"0\n"
    until(lambda: followers(gpu01), "the tail")
    watcher.kill()
    watcher.stdout.close()
    watcher.wait()
    until(lambda: not followers(gpu01), "the end of tail on the host")
    assert "flock -n lock" in processes(gpu01), "the run itself goes on"
    gpu01.run(f"touch {WORKER}/go-200", user="ana")
    until(lambda: "flock -n lock" not in processes(gpu01), "the end of the run")


def test_an_upload_that_is_cut_is_not_there_and_the_next_one_is(
    known: Known, machine: Machine, gpu01: Host, project: Path
) -> None:
    (project / "big.bin").write_bytes(os.urandom(30_000_000))
    bundle = collect(project, cache=project.parent / "cache")

    def cut(sent: int) -> None:
        if sent > 10_000_000:
            cut_sessions(gpu01)
            until(lambda: not sessions(gpu01), "the end of the sessions")

    with pytest.raises((LostConnection, HostError)) as caught:
        upload(machine, PLACE, bundle, told=cut)
    bundles = gpu01.disk / "home/ana/.orch/ana/mnist/bundles"
    assert not [p.name for p in bundles.iterdir() if not p.name.startswith(".")], str(caught.value)
    with connect(known) as again:
        upload(again, PLACE, bundle)
        heard: list[int] = []
        upload(again, PLACE, bundle, told=heard.append)
    assert heard == []
    assert [p.name for p in bundles.iterdir() if not p.name.startswith(".")] == [bundle.digest]
    assert collect(bundles / bundle.digest, cache=project.parent / "cache").digest == bundle.digest
    (project / "train.py").write_text("print(2)\n")
    edited = collect(project, cache=project.parent / "cache")
    with connect(known) as again:
        upload(again, PLACE, edited, told=heard.append)
    assert heard[-1] < 20_000, "an edit costs kilobytes, not the 30 MB"
    assert collect(bundles / edited.digest, cache=project.parent / "cache").digest == edited.digest


def test_a_disk_that_is_full_is_told_in_one_line(machine: Machine, gpu01: Host, project: Path) -> None:
    (project / "big.bin").write_bytes(os.urandom(9_000_000))
    bundle = collect(project, cache=project.parent / "cache")
    with gpu01.small_disk("/srv/small", "8m"):
        gpu01.run("chmod 777 /srv/small")
        with pytest.raises(HostError) as caught:
            upload(machine, "/srv/small/p", bundle)
    assert str(caught.value) == (
        "gpu01: no space left on device: the code needs 9.0 MB, 8.4 MB free at /srv/small/p/bundles"
    )


def test_copies_go_both_ways_and_come_back_the_same(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("a b", "é", "sub/it's", "sub/-rf", "new\nline"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(os.urandom(200_000))
    (data / "sub/link").symlink_to("../a b")
    (data / "sub/it's").chmod(0o755)
    counter = gpu01.counter()
    assert "5 files" not in orch("cp", data, "gpu01:/home/ana/.orch/x", code=1).stderr  # no such folder yet
    gpu01.run("mkdir -p /home/ana/.orch", user="ana")
    said = orch("cp", data, "gpu01:.orch/x")
    assert said.stderr == "gpu01   6 files, 1.0 MB sent to /home/ana/.orch/x\n"
    assert (counter.read().connections, counter.read().execs) == (2, 4)
    said = orch("cp", "gpu01:~/.orch/x", tmp_path / "back")
    assert said.stderr.startswith("gpu01   6 files, 1.0 MB\n")
    assert collect(tmp_path / "back", cache=tmp_path / "c").digest == (
        collect(data, cache=tmp_path / "c").digest
    )
    assert len(walk(tmp_path / "back").found) == 6
