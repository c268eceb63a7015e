"""Two hosts of one run write their logs while every connection to them is cut again and again."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.hosts.connect import connect
from orchestrator.inventory import load
from orchestrator.run.launch import Order, launch
from orchestrator.run.spec import RunSpec
from tests.relay import Relay
from tests.ssh.server import Server, serving
from tests.unit.here import record, venv_in
from tests.until import until

HOSTS = ("gpu01", "gpu02")
SIZE = 50_000_000
"""Bytes that each host writes at least; more, until the test lets it end."""

LIMIT = 600.0
"""Seconds that a busy machine may take for fifty cuts, and what follows them."""

ROOT = Path(__file__).resolve().parents[1]

# Whole lines of one to some thousand characters, of one to four bytes each: a prefix can be taken off.
WRITER = """
import os, random, sys, time
seed, size, go = sys.argv[1], int(sys.argv[2]), sys.argv[3]
chance, written, began = random.Random(seed), 0, time.monotonic()
words = ["loss", "0.125", "\\u00e9poch", "\\u2501" * 30, "\\U0001f40d"]
while written < size or not os.path.exists(go):
    lines = (" ".join(chance.choices(words, k=int(2 ** chance.uniform(0, 9)))) for _ in range(40))
    data = "".join(line + "\\n" for line in lines).encode()
    for at in range(0, len(data), 7777):
        written += os.write(1, data[at : at + 7777])
    pace = 2.5e6 if written < size else 2e5
    time.sleep(len(data) / pace)
"""


@dataclass(frozen=True)
class Watcher:
    """An `orch tail` that follows the run through the relays."""

    process: subprocess.Popen[bytes]
    words: Path

    def told(self) -> str:
        """Return what it has said beside the log."""
        return self.words.read_text()


class Trial:
    """A run of two workers on two sshds, each behind a relay."""

    def __init__(self, folder: Path, transport: str, seed: int, servers: list[Server], size: int) -> None:
        self.folder, self.transport = folder, transport
        self.relays = [Relay(server.port, seed) for server in servers]
        self.places = [server.home / "place" for server in servers]
        self.go = folder / "go"
        self.home = folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self._write_inventory(servers)
        argv = ("python3", "-c", WRITER, str(seed), str(size), str(self.go))
        self.run = f"20261130-0214-cut-{secrets.token_hex(2)}"
        self.spec = RunSpec(self.run, argv, HOSTS, "ana", "p", "b1", name="cut", asked=time.time())

    def _write_inventory(self, servers: list[Server]) -> None:
        lines, known = [], ""
        for host, server, relay in zip(HOSTS, servers, self.relays, strict=True):
            key = server.authorized.with_name("login")
            root = server.home / "root"
            lines.append(f"{host} ansible_host=127.0.0.1 ansible_port={relay.port} root={root} "
                         f"ansible_ssh_private_key_file={key}")  # fmt: skip
            kind, public = (server.folder / "host_ed25519.pub").read_text().split()[:2]
            known += f"[127.0.0.1]:{relay.port} {kind} {public}\n"
        lines += ["[all:vars]", "person=ana", "project=p", f"transport={self.transport}", "engine=venv"]
        (self.folder / "hosts.ini").write_text("\n".join(lines) + "\n")
        (self.home / ".ssh/known_hosts").write_text(known)

    def launch(self) -> None:
        """Launch both workers."""
        hosts = load([self.folder / "hosts.ini"], environ={}).select(HOSTS).hosts
        for host in hosts:
            place = Path(host.settings.root) / "ana" / "p"
            (place / "bundles/b1").mkdir(parents=True)
            record(venv_in(place))
            (place / "enter").write_text('cd "$1" && shift && exec "$@"\n')
            (place / "whole").touch()
            with connect(host) as machine:
                launch(machine, Order(self.spec, str(place)))

    def log(self, number: int) -> Path:
        """Return the log of a host, on the host."""
        home = self.places[number].parent
        return home / "root/ana/p/runs" / self.run / HOSTS[number] / "training.log"

    def environ(self) -> dict[str, str]:
        """Return the environment of a person's command."""
        inventory = str(self.folder / "hosts.ini")
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "ORCH_INVENTORY": inventory,
            "USER": "ana",
        }

    @contextmanager
    def watching(self, name: str, *words: str) -> Iterator[Watcher]:
        """Follow the run with `orch tail`; its stdout goes to a file of that name."""
        program = [sys.executable, "-m", "orchestrator", "tail", self.run, *words]
        said = self.folder / f"{name}.err"
        with (self.folder / name).open("wb") as out, said.open("wb") as err:
            process = subprocess.Popen(
                program, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=self.folder,
                env={**self.environ(), "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        try:
            yield Watcher(process, said)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def cuts(self) -> int:
        """Return how many connections were cut so far."""
        return sum(relay.cuts for relay in self.relays)

    def close(self) -> None:
        """End relays and writers."""
        self.go.touch()
        for number, relay in enumerate(self.relays):
            relay.close()
            state = self.log(number).with_name("state.json")
            until(
                lambda state=state: not state.exists() or '"ended": ' in state.read_text(), "the end of a run"
            )


@contextmanager
def trial(folder: Path, transport: str, seed: int, size: int = SIZE) -> Iterator[Trial]:
    """Start two servers with a relay before each."""
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(folder / host)) for host in HOSTS]
        made = Trial(folder, transport, seed, servers, size)
        stack.callback(made.close)
        before, os.environ["HOME"] = os.environ.get("HOME", "/"), str(made.home)
        stack.callback(os.environ.__setitem__, "HOME", before)
        yield made


def cut_and_compare(made: Trial, cuts: int, limit: float = LIMIT) -> str:
    """Follow in two ways while the lines are cut; return in words how it went. Raises AssertionError."""
    made.launch()
    began = time.monotonic()
    with made.watching("saved", "--output", "saved.logs") as saving, made.watching("shown") as showing:
        watchers = (saving, showing)
        files = [made.folder / "shown", *(made.folder / "saved.logs" / f"{host}.log" for host in HOSTS)]
        until(lambda: all(file.exists() and file.stat().st_size for file in files), "the first lines")
        for relay in made.relays:
            relay.arm()
        until(
            lambda: made.cuts() >= cuts or any(w.process.poll() is not None for w in watchers),
            "the cuts",
            limit,
        )
        assert made.cuts() >= cuts, [w.told()[-2000:] for w in watchers]
        for relay in made.relays:
            relay.disarm()
        made.go.touch()
        for watcher in watchers:
            code = watcher.process.wait(limit)
            assert code == 0, (code, watcher.told()[-2000:])
    compare(made)
    lost = sum(watcher.told().count("connection lost") for watcher in watchers)
    frozen = sum(relay.freezes for relay in made.relays)
    size = sum(made.log(number).stat().st_size for number in range(2)) / 1e6
    seconds = time.monotonic() - began
    return f"{made.cuts()} cuts ({frozen} after a freeze), {lost} resumed, {size:.0f} MB, {seconds:.0f} s"


def compare(made: Trial) -> None:
    """Hold what was saved, and what was shown less its prefixes, against the files on the hosts."""
    shown: dict[str, list[bytes]] = {host: [] for host in HOSTS}
    with (made.folder / "shown").open("rb") as file:
        for line in file:
            host, _, rest = line.partition(b" | ")
            shown[host.decode()].append(rest)
    for number, host in enumerate(HOSTS):
        log = made.log(number).read_bytes()
        assert (made.folder / "saved.logs" / f"{host}.log").read_bytes() == log, f"saved from {host}"
        assert b"".join(shown[host]) == log.removeprefix(b"nohup: ignoring input\n"), f"shown of {host}"
        assert len(log) >= 1000


def seed() -> int:
    """Return the seed of this trial: ORCH_CUT_SEED, else another each time."""
    return int(os.environ.get("ORCH_CUT_SEED", random.SystemRandom().randrange(1 << 32)))
