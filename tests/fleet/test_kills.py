"""orch is killed at each step of a verb, and at random times: the next call goes on as if nothing was."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.until import until

from .killing import alone, at_each_step, killed, killed_after, moments, nothing_goes_on, steps
from .lab import Host
from .orch import Orch
from .small import IMAGE, built

PLACE = "/home/ana/.orch/ana/mnist"
HERE = f"{PLACE}/hosts/gpu01"
WHOLE = r"[0-9a-f]{64}|\d{8}-\d{4}-\w+-\w{4}|latest|\w+:|\.files"  # what may stand in bundles/ and runs/
TO_GPU01 = ("--yes", "--hosts", "gpu01")
TIME = 2.0  # seconds, about what a call takes on a quiet machine
WRITES = (
    "head -c 20000000 /dev/urandom > big; mkdir -p sub a/b; ln -s sub/1 link; echo x > a/b/c; "
    "for i in 1 2 3 4 5; do head -c 9000 /dev/urandom > sub/$i; done"
)


@pytest.fixture
def small(orch: Orch, gpu01: Host, gpu02: Host) -> Iterator[Orch]:
    """ana, with a small image that is built already, and nothing deployed."""
    gpu01.wipe()
    alone(gpu01, gpu02)
    gpu01.run(f"docker load -qi {built(orch, gpu01)}")
    yield orch.having(ORCH_IMAGE=IMAGE)
    gpu01.wipe()


@pytest.fixture
def deployed(small: Orch) -> Orch:
    small("deploy", *TO_GPU01)
    return small


def audit(host: Host, verb: str) -> list[str]:
    """What audit.log tells of a verb, a line each."""
    return re.findall(rf" {verb} (.+)", host.run(f"cat {PLACE}/audit.log").stdout)


def nobody_has_the_turn(host: Host) -> None:
    """The lock of deploys is free, and says so."""
    nothing_goes_on(host)
    assert host.run(f"cat {HERE}/.turn").stdout == ""
    for lock in (".turn", ".turn.start"):
        host.run(f"flock -n {HERE}/{lock} true")


def rows(orch: Orch) -> list[dict[str, object]]:
    return list(json.loads(orch("ps", "-a", "--json").stdout)["rows"])


def left_half_made(host: Host) -> list[str]:
    """What stands beside bundles and runs, and is neither."""
    names = host.run(f"cd {PLACE} && ls -A bundles runs").stdout.split()
    return [n for n in names if not re.fullmatch(WHOLE, n)]


def test_train(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    code = deployed.cwd / "code.py"

    def words(name: str) -> tuple[str, ...]:
        code.write_text(f"k{name} = {chance.random()}\n")  # new code, to be sent
        where = ("--hosts", "gpu01")
        return (
            "train",
            "-d",
            "--name",
            f"k{name}",
            *where,
            "--",
            "python3",
            "-c",
            f"import code; code.k{name}",
        )

    def repeated(name: str) -> None:
        deployed(*words(f"{name}again"))

    last = at_each_step(deployed, words, repeated)
    for number in range(3):
        killed_after(chance.uniform(0.1, TIME), deployed, *words(f"r{number}"))
    repeated("r")
    nobody_has_the_turn(gpu01)
    until(lambda: all(row["ended"] for row in rows(deployed)), "the end of all runs")
    found = rows(deployed)
    assert {row["state"] for row in found} == {"succeeded"}
    names = {str(row["name"]) for row in found}
    assert {"kragain", f"k{last}", *(f"k{step}again" for step in range(1, last + 1))} <= names
    assert len(names) == len(found)
    until(lambda: not left_half_made(gpu01), "that no part is left")
    assert sorted(audit(gpu01, "train")) == sorted(str(row["run"]) for row in found)


def test_two_launches_of_one_new_bundle(deployed: Orch, gpu01: Host) -> None:
    (deployed.cwd / "big").write_bytes(os.urandom(5_000_000))
    words = ("train", "-d", "--hosts", "gpu01", "--", "sha256sum", "big")
    both = [deployed.start(*words) for _ in range(2)]
    said = [one.communicate(timeout=240) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    until(lambda: all(row["ended"] for row in rows(deployed)), "the end of both")
    assert [row["state"] for row in rows(deployed)] == ["succeeded"] * 2
    logs = gpu01.run(f"cat {PLACE}/runs/2*/gpu01/training.log").stdout.split()
    digest = hashlib.sha256((deployed.cwd / "big").read_bytes()).hexdigest()
    assert logs == [digest, "big"] * 2
    nobody_has_the_turn(gpu01)
    assert left_half_made(gpu01) == []
    assert len(gpu01.run(f"ls {PLACE}/bundles").stdout.split()) == 1
    assert len(audit(gpu01, "train")) == 2


@pytest.mark.parametrize("way", ["up", "down"])
def test_cp(deployed: Orch, gpu01: Host, tmp_path: Path, chance: random.Random, way: str) -> None:
    big, here = chance.randbytes(20_000_000), tmp_path / "here"
    (deployed.cwd / "big").write_bytes(big)
    here.mkdir()
    words = ("cp", "big", "gpu01:.orch/big") if way == "up" else ("cp", "gpu01:.orch/big", here)

    def begin_anew(step: str = "") -> tuple[object, ...]:
        if way == "up":
            gpu01.run("rm -f .orch/big", user="ana")
        (here / "big").unlink(missing_ok=True)
        return words

    def copied(step: str = "") -> None:
        deployed(*words)
        there = gpu01.run("sha256sum < .orch/big", user="ana").stdout.split()[0]
        assert there == hashlib.sha256(big).hexdigest()
        assert way == "up" or (here / "big").read_bytes() == big

    if way == "down":
        deployed("cp", "big", "gpu01:.orch/big")
    last = at_each_step(deployed, begin_anew, copied)
    for _ in range(3):
        killed_after(chance.uniform(0.1, TIME), deployed, *begin_anew())
        copied()
    nothing_goes_on(gpu01)
    assert [p.name for p in here.iterdir()] == ["big"] * (way == "down")
    assert gpu01.run("ls -A .orch", user="ana").stdout.split() == ["ana", "big"]
    assert audit(gpu01, "cp") == ["/home/ana/.orch/big"] * (last + 3 if way == "up" else 1)


@pytest.fixture
def run(deployed: Orch, gpu01: Host) -> str:
    """A run that has written a large file, some small ones and a link."""
    done = deployed("train", "--wait", "--hosts", "gpu01", "--", "sh", "-c", WRITES)
    return done.stdout.split()[1]


def fetched(orch: Orch, run: str, host: Host) -> None:
    """What is here of a run is what it wrote, and nothing else."""
    there = f"{PLACE}/runs/{run}/gpu01/work"
    listing = "find . ! -type d ! -name .gitignore ! -name .orch-fetched ! -name train.py | sort | xargs {}"
    for of_each in ("sha256sum", "ls -ld --time-style=+%s | awk '{ print $6, $7, $8, $9 }'"):
        line = listing.format(of_each)
        want = host.run(f"cd {there} && {line}").stdout
        have = subprocess.run(
            line, shell=True, cwd=orch.cwd / run, capture_output=True, text=True, check=True
        )
        assert have.stdout == want
        assert want.count("\n") == 8
    assert (orch.cwd / run / ".orch-fetched").exists()
    assert (orch.cwd / run / ".gitignore").read_text() == "*\n"


def test_fetch(deployed: Orch, run: str, gpu01: Host, chance: random.Random) -> None:
    def begin_anew(step: str = "") -> tuple[object, ...]:
        subprocess.run(["rm", "-rf", run], cwd=deployed.cwd, check=True)
        return ("fetch", run)

    def whole(step: str = "") -> None:
        deployed("fetch", run)
        fetched(deployed, run, gpu01)

    at_each_step(deployed, begin_anew, whole)
    for _ in range(3):
        killed_after(chance.uniform(0.1, TIME), deployed, *begin_anew())
        whole()
    nothing_goes_on(gpu01)


def test_two_fetches_of_one_run(deployed: Orch, run: str, gpu01: Host) -> None:
    both = [deployed.start("fetch", run) for _ in range(2)]
    said = [one.communicate(timeout=240) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    fetched(deployed, run, gpu01)
    nothing_goes_on(gpu01)


def killed_and_repeated(moment: int | float, orch: Orch, host: Host) -> None:
    """Kill a deploy, and deploy again: what the first had begun may just have been taken back."""
    killed(moment, orch, "deploy", *TO_GPU01)
    again = orch("deploy", *TO_GPU01, code=None)
    if again.returncode == 75:
        assert "Deploy again" in again.stderr
        again = orch("deploy", *TO_GPU01)
    assert again.returncode == 0, again.stderr
    assert host.containers(all=True) == ["orch-ana-mnist"]
    assert orch("exec", "gpu01", "--", "echo", "hi").stdout == "hi\n"


def test_deploy(small: Orch, gpu01: Host, chance: random.Random) -> None:
    tries = moments(steps(small, "deploy", *TO_GPU01), chance, 3, 4 * TIME)
    for moment in tries:
        small("down", *TO_GPU01)
        killed_and_repeated(moment, small, gpu01)
    nobody_has_the_turn(gpu01)
    assert [line.split()[0] for line in audit(gpu01, "deploy")] == ["create"] * (1 + len(tries))


def test_a_deploy_that_changes_something(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    size = 64

    def changed() -> Orch:
        return deployed.having(ORCH_SHM_SIZE=f"{size}m")

    tries = moments(steps(changed(), "deploy", *TO_GPU01), chance, 3, 4 * TIME)
    for moment in tries:
        size += 1
        killed_and_repeated(moment, changed(), gpu01)
        there = gpu01.docker("inspect", "-f", "{{.HostConfig.ShmSize}}", "orch-ana-mnist")
        assert int(there) == size << 20
    nobody_has_the_turn(gpu01)
    assert [line.split()[0] for line in audit(gpu01, "deploy")] == ["create", *["replace"] * (1 + len(tries))]
