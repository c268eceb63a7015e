"""orch is killed at each step of a verb, and at random times: the next call goes on as if nothing was."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.until import until

from .lab import Host
from .orch import Orch
from .small import IMAGE, built
from .test_files import sessions

PLACE = "/home/ana/.orch/ana/mnist"
WHOLE = r"[0-9a-f]{64}|\d{8}-\d{4}-\w+-\w{4}|latest|\w+:|\.files"  # what may stand in bundles/ and runs/
STEP = re.compile(r"[<>] gpu01: ")  # a command is sent to the host, or has ended there


@pytest.fixture
def small(orch: Orch, gpu01: Host) -> Iterator[Orch]:
    """ana, with a small image that is built already, and nothing deployed."""
    gpu01.wipe()
    gpu01.run(f"docker load -qi {built(orch, gpu01)}")
    yield orch.having(ORCH_IMAGE=IMAGE)
    gpu01.wipe()


@pytest.fixture
def deployed(small: Orch) -> Orch:
    small("deploy", "--yes", "--hosts", "gpu01")
    return small


@pytest.fixture
def chance() -> random.Random:
    """Told where a test fails, to repeat it by ORCH_TEST_SEED."""
    seed = int(os.environ.get("ORCH_TEST_SEED") or random.randrange(10**6))
    print(f"ORCH_TEST_SEED={seed}")
    return random.Random(seed)


def steps(orch: Orch, verb: str, *words: object) -> int:
    """How many steps a call has that nothing disturbs."""
    return len(STEP.findall("\n".join(orch(verb, "-vv", *words).stderr.splitlines())))


def killed_at(step: int, orch: Orch, verb: str, *words: object) -> None:
    going = orch.start(verb, "-vv", *words)
    assert going.stderr
    marks = (line for line in going.stderr if STEP.match(line))
    next(itertools.islice(marks, step - 1, None), None)
    going.kill()
    going.communicate()


def killed_after(seconds: float, orch: Orch, *words: object) -> None:
    going = orch.start(*words)
    time.sleep(seconds)  # a random one: whatever it does then is what is tried
    going.kill()
    going.communicate()


def nothing_goes_on(host: Host) -> None:
    until(lambda: not sessions(host), "the end of the sessions of those that were killed")


def test_train(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    code = deployed.cwd / "code.py"

    def words(name: str) -> tuple[str, ...]:
        code.write_text(f"{name} = {chance.random()}\n")  # new code, to be sent
        return ("-d", "--name", name, "--hosts", "gpu01", "--", "python3", "-c", f"import code; code.{name}")

    began = time.monotonic()
    last = steps(deployed, "train", *words("whole"))
    took = time.monotonic() - began
    for step in range(1, last + 1):
        killed_at(step, deployed, "train", *words(f"k{step}"))
        deployed("train", *words(f"n{step}"))
    for number in range(3):
        killed_after(chance.uniform(0.2, took), deployed, "train", *words(f"r{number}"))
    deployed("train", *words("after"))
    nothing_goes_on(gpu01)

    def rows() -> list[dict[str, object]]:
        return list(json.loads(deployed("ps", "-a", "--json").stdout)["rows"])

    until(lambda: all(row["ended"] for row in rows()), "the end of all runs")
    assert {row["state"] for row in rows()} == {"succeeded"}
    names = {str(row["name"]) for row in rows()}
    assert {"whole", "after", *(f"n{step}" for step in range(1, last + 1))} <= names
    assert len(names) == len(rows())

    def left() -> list[str]:
        names = gpu01.run(f"cd {PLACE} && ls -A bundles runs").stdout.split()
        return [n for n in names if not re.fullmatch(WHOLE, n)]

    until(lambda: not left(), "that no part is left")
    log = gpu01.run(f"cat {PLACE}/audit.log").stdout
    assert sorted(re.findall(r" train (\S+)", log)) == sorted(str(row["run"]) for row in rows())


@pytest.mark.parametrize("way", ["up", "down"])
def test_cp(deployed: Orch, gpu01: Host, tmp_path: Path, chance: random.Random, way: str) -> None:
    big, here = chance.randbytes(30_000_000), tmp_path / "here"
    (deployed.cwd / "big").write_bytes(big)
    here.mkdir()
    words = ("big", "gpu01:.orch/big") if way == "up" else ("gpu01:.orch/big", here)

    def begin_anew() -> None:
        if way == "up":
            gpu01.run("rm -f .orch/big", user="ana")
        (here / "big").unlink(missing_ok=True)

    def copied() -> None:
        deployed("cp", *words)
        there = gpu01.run("sha256sum < .orch/big", user="ana").stdout.split()[0]
        assert there == hashlib.sha256(big).hexdigest()
        assert way == "up" or (here / "big").read_bytes() == big

    if way == "down":
        deployed("cp", "big", "gpu01:.orch/big")
    began = time.monotonic()
    last = steps(deployed, "cp", *words)
    took = time.monotonic() - began
    for step in range(1, last + 1):
        begin_anew()
        killed_at(step, deployed, "cp", *words)
        copied()
    for _ in range(3):
        begin_anew()
        killed_after(chance.uniform(0.2, took), deployed, "cp", *words)
        copied()
    nothing_goes_on(gpu01)
    assert [p.name for p in here.iterdir()] == ["big"] * (way == "down")
    until(lambda: gpu01.run("ls -A .orch", user="ana").stdout.split() == ["ana", "big"], "no part there")


def test_deploy(small: Orch, gpu01: Host, chance: random.Random) -> None:
    words = ("--yes", "--hosts", "gpu01")
    last = steps(small, "deploy", *words)
    for step in sorted(chance.sample(range(1, last + 1), 4)):
        small("down", *words)
        killed_at(step, small, "deploy", *words)
        again = small("deploy", *words, code=None)
        if again.returncode == 75:  # what the killed one had begun was taken back meanwhile
            assert "Deploy again" in again.stderr
            again = small("deploy", *words)
        assert again.returncode == 0, again.stderr
        assert gpu01.containers(all=True) == ["orch-ana-mnist"], step
        assert small("exec", "gpu01", "--", "echo", "hi").stdout == "hi\n"
    nothing_goes_on(gpu01)
    assert gpu01.run(f"cat {PLACE}/hosts/gpu01/.turn").stdout == ""
