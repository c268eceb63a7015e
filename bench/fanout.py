"""A command on 64 hosts at once: `orch exec`, beside `pdsh` with the same fan-out.

    .venv/bin/python bench/fanout.py

The hosts are 64 sshds on this machine, each a process of its own with sshd's defaults (MaxStartups
10:30:100). Both programs read one ssh_config, log in by one key and reach 32 hosts at a time. Compared are
the wall time and the CPU time of the caller's side: the program and all that it starts (pdsh starts one ssh
for each host), without the servers.

Prints medians and ratios and writes bench/fanout.json. The goals: every host answers; wall at most 1.1 times
pdsh's, CPU at most a third of it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HOSTS = [f"127.0.1.{number}" for number in range(1, 65)]
FAN_OUT = 32
RUNS = 5
PORT = 2022
ORCH = str(Path(sys.executable).with_name("orch"))
PDSH = ["pdsh", "-R", "ssh", "-f", str(FAN_OUT), "-w", "127.0.1.[1-64]", "true"]
EXEC = [ORCH, "exec", "--hosts", "all", "--on-host", "--", "true"]


@dataclass(frozen=True)
class Cost:
    """Seconds of one run: wall time, and CPU time of the program with its children."""

    wall: float
    cpu: float


def main() -> None:
    """Time both in turn, so that a drift of the machine meets both."""
    if not shutil.which("pdsh"):
        sys.exit("bench/fanout.py: needs pdsh (apt-get install pdsh)")
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as environ:
        programs = {"pdsh": PDSH, "orch": EXEC}
        for command in programs.values():
            cost(command, environ)
        costs: dict[str, list[Cost]] = {name: [] for name in programs}
        for _ in range(RUNS):
            for name, command in programs.items():
                costs[name].append(cost(command, environ))
    report(costs)


def report(costs: dict[str, list[Cost]]) -> None:
    """Print the medians and the ratios, and write them down."""
    wall = {name: statistics.median(c.wall for c in found) for name, found in costs.items()}
    cpu = {name: statistics.median(c.cpu for c in found) for name, found in costs.items()}
    print(f"baseline  PDSH_SSH_ARGS_APPEND='-F CONFIG' {' '.join(PDSH)}")
    for name in costs:
        print(f"{name:8}  wall {wall[name]:6.2f} s   client CPU {cpu[name]:6.2f} s")
    ratios = {"wall": wall["orch"] / wall["pdsh"], "cpu": cpu["orch"] / cpu["pdsh"]}
    print(f"ratio     wall {ratios['wall']:6.2f}     client CPU {ratios['cpu']:6.2f}     (goals: 1.10, 0.33)")
    told = {"baseline": PDSH, "hosts": len(HOSTS), "wall": wall, "cpu": cpu, "ratios": ratios}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


def cost(command: list[str], environ: dict[str, str]) -> Cost:
    """Run a program once and return what it cost; a host that is lost ends the benchmark."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, check=False, env=environ, cwd=environ["HOME"], capture_output=True, stdin=subprocess.DEVNULL
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or done.stderr:
        sys.exit(f"{command[0]}: exit status {done.returncode}\n{done.stderr.decode()}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


@contextmanager
def fleet(folder: Path, hosts: Sequence[str] = HOSTS) -> Iterator[dict[str, str]]:
    """Start the servers; yield the environment of a caller who may log in to them."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for key in (folder / "host", home / ".ssh/id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = (folder / "host.pub").read_text()
    (home / ".ssh/known_hosts").write_text("".join(f"[{host}]:{PORT} {public}" for host in hosts))
    config = home / ".ssh/config"
    config.write_text(
        f"Port {PORT}\nIdentityFile {home}/.ssh/id_ed25519\nUserKnownHostsFile {home}/.ssh/known_hosts\n"
    )
    (home / "hosts.ini").write_text("".join(f"{host}\n" for host in hosts))
    with ExitStack() as servers:
        for number, host in enumerate(hosts):
            servers.enter_context(server(folder, home, number, host))
        kept = {name: os.environ[name] for name in ("PATH", "USER", "LOGNAME", "LANG") if name in os.environ}
        yield {**kept, "HOME": str(home), "PDSH_SSH_ARGS_APPEND": f"-F {config}"}


@contextmanager
def server(folder: Path, home: Path, number: int, host: str) -> Iterator[None]:
    """Run one sshd with the defaults of sshd_config, but for its place and its keys."""
    log = folder / f"{number}.log"
    lines = [
        f"ListenAddress {host}:{PORT}",
        f"HostKey {folder / 'host'}",
        f"AuthorizedKeysFile {home}/.ssh/id_ed25519.pub",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        f"SetEnv HOME={home}",  # with no .bashrc that takes its own time
    ]
    config = folder / f"{number}.conf"
    config.write_text("\n".join(lines) + "\n")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert sshd, "needs sshd (apt-get install openssh-server)"
    process = subprocess.Popen([sshd, "-D", "-f", str(config), "-E", str(log)])
    try:
        while process.poll() is None and not (log.exists() and "Server listening" in log.read_text()):
            time.sleep(0.01)
        if process.poll() is not None:
            sys.exit(f"sshd: {log.read_text()}")
        yield
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
