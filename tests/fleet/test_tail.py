"""The logs of a run on two hosts in one `orch tail`, across a link that was cut."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.hosts.connect import connect
from orchestrator.inventory import load
from orchestrator.run.launch import Order, launch
from orchestrator.run.spec import RunSpec
from tests.cuts import WRITER
from tests.until import until

from .lab import Host
from .orch import Orch

NAMES = ("gpu01", "gpu02")
RUN = "20261130-0214-two-7f3a"
PLACE = "/home/ana/.orch/ana/mnist"
GO = "/home/ana/go"
# The seed is the host's name: each log is another one.
WORKER = ("sh", "-c", 'exec python3 -c "$0" "$(uname -n)" 2000000 ' + GO, WRITER)


@dataclass(frozen=True)
class Watcher:
    """An `orch tail` whose stdout and stderr go to files."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def told(self, words: str) -> None:
        """Wait until it has said something."""
        until(lambda: words in self.err.read_text() or self.process.poll() is not None, words)
        assert words in self.err.read_text()


@contextmanager
def watching(orch: Orch, name: str, *words: str) -> Iterator[Watcher]:
    out, err = orch.home / f"{name}.out", orch.home / f"{name}.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            orch.argv("tail", RUN, *words), cwd=orch.home, env=orch.environment(),
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
        )  # fmt: skip
    try:
        yield Watcher(process, out, err)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def two(orch: Orch, gpu01: Host, gpu02: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orch]:
    """A run of a worker on each host that writes until it may end."""
    orch = orch.having(ORCH_ENGINE="host", ORCH_PROJECT="mnist")
    orch("deploy", "--yes", "--hosts", ",".join(NAMES))
    monkeypatch.setenv("HOME", orch.environment()["HOME"])
    spec = RunSpec(RUN, WORKER, NAMES, "ana", "mnist", "b1", name="two", asked=1.0)
    inventory = load([orch.fleet.client.inventory("ana")], environ={"ORCH_ENGINE": "host"})
    for machine, host in zip((gpu01, gpu02), inventory.select(NAMES).hosts, strict=True):
        machine.run(f"rm -f {GO}; mkdir -p {PLACE}/bundles/b1", user="ana")
        with connect(host) as connected:
            launch(connected, Order(spec, PLACE))
    yield orch
    for machine in (gpu01, gpu02):
        machine.join()
        machine.run(f"touch {GO}", user="ana")
    until(lambda: orch("ps", "-q", "-a", "--json").stdout.count('"state": "running"') == 0, "the end of it")
    for machine in (gpu01, gpu02):
        machine.run("rm -rf /home/ana/.orch")


def test_two_hosts_in_one_tail_across_a_cut_link(two: Orch, gpu01: Host, gpu02: Host) -> None:
    """Shown less its prefixes, and saved, it is what the hosts have; no line has another's within."""
    with watching(two, "shown") as shown, watching(two, "saved", "--output", "logs") as saved:
        watchers = (shown, saved)
        files = [shown.out, *(two.home / f"logs/{name}.log" for name in NAMES)]
        until(lambda: all(file.exists() and file.stat().st_size for file in files), "the first lines")
        with gpu01.unreachable():
            for watcher in watchers:
                watcher.told("gpu01: connection lost, connecting again")
        for watcher in watchers:
            watcher.told("gpu01: connected again, going on at byte")
        for host in (gpu01, gpu02):
            host.run(f"touch {GO}", user="ana")
        assert [watcher.process.wait(120) for watcher in watchers] == [0, 0]
    lines: dict[str, list[bytes]] = {name: [] for name in NAMES}
    for line in shown.out.read_bytes().splitlines(keepends=True):
        name, _, rest = line.partition(b" | ")
        lines[name.decode()].append(rest)
    logs = [
        (host.disk / f"home/ana/.orch/ana/mnist/runs/{RUN}/{host.name}/training.log").read_bytes()
        for host in (gpu01, gpu02)
    ]
    assert logs[0] != logs[1]
    for name, log in zip(NAMES, logs, strict=True):
        assert len(log) > 2_000_000
        assert (two.home / f"logs/{name}.log").read_bytes() == log
        assert b"".join(lines[name]) == log.removeprefix(b"nohup: ignoring input\n")
    assert "gpu02: connection lost" not in shown.err.read_text() + saved.err.read_text()
