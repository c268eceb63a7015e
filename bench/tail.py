"""`orch tail` of a 200 MB log beside `ssh host cat`, and of a new line beside `ssh host tail -f`.

    .venv/bin/python bench/tail.py

The host is an sshd on this machine, the log is of a run that has ended, and both sides write into a file
on the same disk. Speed is counted from the first byte that arrives to the last one: what a start costs is
told apart; the whole time of each program stands beside it, and its CPU's, which counts on a busy machine.
For the latency a line is written every 20 ms to the log of a run that lives, with the time in it.

Prints medians and ratios and writes bench/tail.json. The goals: raw at least 0.9 of ssh's speed, with
prefixes at least 0.5; 99th percentile of the latency at most 20 ms above that of `ssh host tail -f`; the most
memory for 200 MB at most 1.2 times that for 2 MB.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from orchestrator.run.spec import RunSpec  # noqa: E402
from tests.ssh.server import Server, serving  # noqa: E402
from tests.unit.here import MACHINE  # noqa: E402

RUNS = 5
BIG, SMALL = 200_000_000, 2_000_000
LINES = 300
LINE = b"1875/1875 [==============================] - 4s 2ms/step - loss: 0.2912 - accuracy: 0.9158\n"
ORCH = str(Path(sys.executable).with_name("orch"))


@dataclass(frozen=True)
class Cost:
    """One run: bytes a second from first to last, seconds in all, seconds of CPU, most memory in kB."""

    speed: float
    wall: float
    cpu: float
    memory: int


class Bench:
    """A server with the records of runs, and a caller who may log in."""

    def __init__(self, server: Server) -> None:
        self.server, self.home = server, server.client
        words = [f"-o UserKnownHostsFile={server.known_hosts}", "-o IdentitiesOnly=yes", f"-i {server.login}"]
        self.ssh = ["ssh", *" ".join(words).split(), "-p", str(server.port), "127.0.0.1"]
        way = f"ansible_host=127.0.0.1 ansible_port={server.port} ansible_ssh_private_key_file={server.login}"
        (self.home / "hosts.ini").write_text(f"gpu01 {way}\n[all:vars]\nperson=ana\nproject=p\n")
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environ = {**kept, "HOME": str(self.home)}

    def worker(self, run: str, host: str, size: int, *, ended: bool) -> Path:
        """Write what a host has of a run; return its log."""
        folder = self.server.home / ".orch/ana/p/runs" / run / host
        folder.mkdir(parents=True)
        spec = RunSpec(run, ("sh",), ("gpu01",), "ana", "p", "b", asked=1.0)
        (folder.parent / "spec.json").write_text(spec.text() + "\n")
        (folder / "worker.json").write_text(json.dumps({"environment": {"machine": MACHINE}}) + "\n")
        state = {"state": "succeeded", "ended": 2.0, "exit_code": 0} if ended else {"state": "running"}
        (folder / "state.json").write_text(json.dumps({"started": 1.0, **state}) + "\n")
        (folder / "lock").touch()
        log = folder / "training.log"
        with log.open("wb") as file:
            file.writelines([LINE * 1000] * (size // len(LINE) // 1000))
        return log

    def cost(self, command: list[str], size: int) -> Cost:
        """Run a program once; what it lost ends the benchmark."""
        out, began, first = self.home / "out", time.perf_counter(), 0.0
        with out.open("wb") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.DEVNULL, env=self.environ, cwd=self.home
            )
            while not first and process.poll() is None:
                time.sleep(0.002)
                first = time.perf_counter() if out.stat().st_size else 0.0
            last = self._last(out, size, process)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode or out.stat().st_size < size:
            sys.exit(
                f"{' '.join(command)}: exit status {process.returncode}, {out.stat().st_size} of {size} bytes"
            )
        cpu = used.ru_utime + used.ru_stime
        return Cost(size / (last - first), time.perf_counter() - began, cpu, used.ru_maxrss)

    @staticmethod
    def _last(out: Path, size: int, process: subprocess.Popen[bytes]) -> float:
        while out.stat().st_size < size:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.002)
        return time.perf_counter()

    def latency(self, command: list[str], log: Path) -> float:
        """Return the 99th percentile of seconds from the writing of a line to its arrival."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=self.environ, cwd=self.home)
        assert process.stdout
        late: list[float] = []
        stop = threading.Event()

        def write() -> None:
            with log.open("ab", buffering=0) as file:
                while not stop.wait(0.02):
                    file.write(b"%.6f\n" % time.time())

        writer = threading.Thread(target=write)
        writer.start()
        for line in process.stdout:
            late.append(time.time() - float(line))
            if len(late) == LINES + 20:  # the first ones come while all begins
                break
        stop.set()
        writer.join()
        process.kill()
        process.stdout.close()
        process.wait()
        return statistics.quantiles(late[20:], n=100)[98]


def main() -> None:
    """Measure all in turn, so that a drift of the machine meets all."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "gpu01") as server:
        server.trust()
        bench = Bench(server)
        told = {**speeds(bench), **latencies(bench)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


def speeds(bench: Bench) -> dict[str, object]:
    """Print and return how fast, and with how much memory, a log comes."""
    log = bench.worker("20261130-0214-big-0001", "gpu01", BIG, ended=True)
    small = bench.worker("20261130-0214-small-0002", "gpu01", SMALL, ended=True)
    bench.worker("20261130-0214-two-0003", "gpu01", BIG, ended=True)
    bench.worker("20261130-0214-two-0003", "gpu02", 0, ended=True)
    baseline = [*bench.ssh, "cat", str(log)]
    tail = [ORCH, "tail", "--hosts", "gpu01"]
    size = log.stat().st_size
    cases = {
        "ssh cat": (baseline, size),
        "raw": ([*tail, "--raw", "20261130-0214-big-0001"], size),
        "shown": ([*tail, "20261130-0214-big-0001"], size),
        "prefixed": ([*tail, "20261130-0214-two-0003"], size),
        "2 MB": ([*tail, "--raw", "20261130-0214-small-0002"], small.stat().st_size),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in cases}
    for number in range(RUNS + 1):
        for name, (command, wanted) in cases.items():
            cost = bench.cost(command, wanted)
            costs[name] += [cost] if number else []
    print(f"baseline  {' '.join(baseline)}")
    speed = {name: statistics.median(c.speed for c in found) / 1e6 for name, found in costs.items()}
    wall = {name: statistics.median(c.wall for c in found) for name, found in costs.items()}
    cpu = {name: statistics.median(c.cpu for c in found) for name, found in costs.items()}
    memory = {name: statistics.median(c.memory for c in found) / 1e3 for name, found in costs.items()}
    for name in cases:
        whole = f"in all {wall[name]:5.2f} s  CPU {cpu[name]:4.2f} s  {memory[name]:4.0f} MB"
        print(f"{name:9} {speed[name]:6.0f} MB/s ({speed[name] / speed['ssh cat']:.2f})  {whole}")
    print("(goals: raw 0.90, prefixed 0.50; memory of raw at most 1.2 times that of 2 MB)")
    return {"baseline": baseline, "speed": speed, "wall": wall, "cpu": cpu, "memory": memory}


def latencies(bench: Bench) -> dict[str, object]:
    """Print and return how late a line comes."""
    late: dict[str, list[float]] = {"ssh tail -f": [], "orch tail": []}
    for number in range(RUNS):
        run = f"20261130-0215-live{number}-0004"
        log = bench.worker(run, "gpu01", 0, ended=False)
        with (log.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            baseline = [*bench.ssh, "tail", "-n", "0", "-f", str(log)]
            late["ssh tail -f"].append(bench.latency(baseline, log))
            late["orch tail"].append(bench.latency([ORCH, "tail", "--hosts", "gpu01", "-n", "0", run], log))
    print(f"baseline  {' '.join(baseline)}")
    medians = {name: statistics.median(found) * 1000 for name, found in late.items()}
    for name, median in medians.items():
        print(f"{name:12} a line is seen within {median:6.1f} ms (99th percentile)")
    print(f"difference   {medians['orch tail'] - medians['ssh tail -f']:6.1f} ms   (goal: 20)")
    return {"latency": medians}


if __name__ == "__main__":
    main()
