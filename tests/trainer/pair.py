"""The workers of one training on this machine, each in a process and a folder of its own."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.trainer.conftest import LIMIT, Trainer

EQUAL = ("--batch_size", "{share}", "--scaling", "none", "--epochs", "2")
"""Flags of a training that sees the same examples in each step, whatever the number of workers."""

ENDS_ITSELF = """
import os, sys
from trainer import cluster, strategy
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
strategy.before_tensorflow(cluster.read(os.environ))
from trainer import __main__, course
counted = course.Course.on_train_batch_end
def ends(self, batch, logs=None):
    counted(self, batch, logs)
    if self.steps_done == int(sys.argv[1]):
        os.kill(os.getpid(), int(sys.argv[2]))
def ends_here(self, batch, logs=None):
    os.kill(os.getpid(), int(sys.argv[2]))
if sys.argv[1] == "validation":
    course.Course.on_test_batch_begin = ends_here
else:
    course.Course.on_train_batch_end = ends
__main__.leave(__main__.main(sys.argv[3:]))
"""
"""The trainer, which gets the signal argv[2] in step argv[1], or in its first validation."""


@dataclass(frozen=True)
class Ended:
    """How one worker ended."""

    rank: int
    cwd: Path
    status: int
    out: str
    err: str

    @property
    def epochs(self) -> list[dict[str, float]]:
        """The lines of progress.jsonl that tell of a whole epoch."""
        lines = (self.cwd / "progress.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if "val_loss" in record]

    @property
    def accuracy(self) -> float:
        assert self.status == 0, self.err
        return float(self.out.splitlines()[-1].rpartition("test accuracy ")[2])


@dataclass(frozen=True)
class Workers:
    """So many workers of this trainer; with one there is no TF_CONFIG."""

    trainer: Trainer
    count: int
    name: str = "workers"

    def trains(self, *flags: str) -> list[Ended]:
        """Start all at once and return how they ended, by rank."""
        return self.run([["-m", "trainer", *flags]] * self.count)

    def equally(self, *flags: str) -> list[str]:
        """The flags with which this number of workers does what any other number does."""
        return [word.format(share=32 // self.count) for word in EQUAL] + list(flags)

    def one_gets(self, rank: int, signal: int, step: object, *flags: str) -> list[Ended]:
        """The same, but the worker `rank` gets a signal in this step."""
        calls = [["-m", "trainer", *flags] for _ in range(self.count)]
        script = self.trainer.writes("ends_itself.py", ENDS_ITSELF)
        calls[rank] = [str(self.trainer.cwd / script), str(step), str(signal), *flags]
        return self.run(calls)

    def run(self, calls: list[list[str]]) -> list[Ended]:
        """Run each worker's own command, all at once."""
        addresses = [f"127.0.0.1:{port}" for port in free_ports(self.count)]
        with ExitStack() as stack:
            processes = []
            for rank, words in enumerate(calls):
                environ = {"TF_CONFIG": config(addresses, rank)} if self.count > 1 else {}
                process = stack.enter_context(self.at(rank).start(*words, **environ))
                stack.callback(process.kill)
                processes.append(process)
            return [self.ended(rank, process) for rank, process in enumerate(processes)]

    def at(self, rank: int) -> Trainer:
        """One worker's python and folder."""
        folder = self.trainer.cwd / f"{self.name}-{rank}-of-{self.count}"
        folder.mkdir(exist_ok=True)
        return Trainer(self.trainer.python, folder)

    def ended(self, rank: int, process: subprocess.Popen[str]) -> Ended:
        out, err = process.communicate(timeout=LIMIT)
        return Ended(rank, self.at(rank).cwd, process.returncode, out, err)


def config(addresses: list[str], rank: int) -> str:
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
