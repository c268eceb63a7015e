"""Two orch at once that change what the other needs: each has its outcome, and neither harms the other."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
import subprocess
import time
from dataclasses import dataclass

from tests.until import until

from .killing import nothing_goes_on
from .lab import Host
from .orch import Orch
from .test_image_copy import layers
from .test_kills import (
    HERE,
    PLACE,
    TO_GPU01,
    audit,
    deployed,
    left_half_made,
    nobody_has_the_turn,
    rows,
    small,
)

__all__ = ["deployed", "small"]  # fixtures

BUSY = 75
ON_GPU01 = ("--hosts", "gpu01")
PRUNE = ("ps", "--prune", "0s", "--yes", "gpu01")


@dataclass(frozen=True)
class Ended:
    """How a call of orch ended."""

    returncode: int
    stdout: str
    stderr: str


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=240)
    assert "Traceback" not in err
    return Ended(process.returncode, out, err)


def both(
    chance: random.Random, one: subprocess.Popen[str], orch: Orch, *words: object
) -> tuple[Ended, Ended]:
    """What becomes of a call that has begun, and of another one up to two seconds later."""
    time.sleep(chance.uniform(0, 2))  # what is tried
    other = orch.start(*words)
    return ended(one), ended(other)


def is_deployed(host: Host) -> bool:
    """Whether there is a container, and the record says so too."""
    recorded = not host.run(f"test -e {HERE}/environment.json", check=False).returncode
    assert host.containers(all=True) == ["orch-ana-mnist"] * recorded
    return recorded


def test_a_deploy_and_a_down(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    changed = deployed.having(ORCH_SHM_SIZE="64m")
    deploy, down = both(chance, changed.start("deploy", *TO_GPU01), deployed.on("desk"), "down", *TO_GPU01)
    assert {deploy.returncode, down.returncode} <= {0, BUSY}, (deploy.stderr, down.stderr)
    assert 0 in (deploy.returncode, down.returncode)
    nobody_has_the_turn(gpu01)
    verbs = [line.split()[2] for line in gpu01.run(f"cat {PLACE}/audit.log").stdout.splitlines()]
    assert verbs.count("down") == (down.returncode == 0)
    assert verbs.count("deploy") == 1 + (deploy.returncode == 0)
    is_deployed(gpu01)
    changed("deploy", *TO_GPU01)
    assert is_deployed(gpu01)


def test_a_launch_and_a_down(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    words = ("train", "-d", *ON_GPU01, "--", "sleep", "3600")
    train, down = both(chance, deployed.start(*words), deployed.on("desk"), "down", *TO_GPU01)
    assert (train.returncode == 0) != (down.returncode == 0), (train.stderr, down.stderr)
    if train.returncode == 0:
        assert down.returncode == BUSY, down.stderr
        assert [row["state"] for row in rows(deployed)] == ["running"]
        assert is_deployed(gpu01)
        deployed("down", "--replace", *TO_GPU01)
    else:
        assert "nothing is deployed here" in train.stderr or "a down by" in train.stderr, train.stderr
        assert rows(deployed) == []
    nobody_has_the_turn(gpu01)
    assert not is_deployed(gpu01)
    assert left_half_made(gpu01) == []


def test_a_launch_and_a_prune(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    words = ("train", "-d", "-q", *ON_GPU01, "--", "python3", "-c", "open('train.py')")
    old = [deployed(*words).stdout.strip() for _ in range(3)]
    until(lambda: all(row["ended"] for row in rows(deployed)), "the end of all runs")
    train, prune = both(
        chance, deployed.start(*words), deployed.on("desk"), "ps", "--prune", "0s", "--yes", "gpu01"
    )
    assert train.returncode == 0, train.stderr
    assert prune.returncode in (0, BUSY), prune.stderr
    until(lambda: all(row["ended"] for row in rows(deployed)), "the end of the run")
    states = {row["run"]: row["state"] for row in rows(deployed)}
    new = train.stdout.strip()
    assert set(states.values()) <= {"succeeded"}
    assert prune.returncode or not set(old) & set(states)
    assert new in states or new in audit(gpu01, "prune")  # it may have ended before the prune asked
    nobody_has_the_turn(gpu01)
    assert left_half_made(gpu01) == []


def test_a_fetch_and_a_prune(deployed: Orch, gpu01: Host, chance: random.Random) -> None:
    writes = (
        "head -c 40000000 /dev/urandom > big; for i in 1 2 3 4 5 6; do head -c 9000 /dev/urandom > $i; done"
    )
    words = ("train", "--wait", "-q", *ON_GPU01, "--", "sh", "-c", f"{writes}; sha256sum big ?")
    deployed(*words)
    (row,) = rows(deployed)
    run = str(row["run"])
    log = gpu01.run(f"cat {PLACE}/runs/{run}/gpu01/training.log").stdout
    wrote = {name: digest for digest, name in map(str.split, log.splitlines())}
    fetch, pruned = both(chance, deployed.start("fetch", run), deployed.on("desk"), *PRUNE)
    assert pruned.returncode == 0, pruned.stderr
    came = (deployed.cwd / run).glob("[!.]*")
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in came}
    assert digests.items() <= wrote.items(), "what is here is whole"
    if fetch.returncode == 0:
        assert digests == wrote
    else:
        assert fetch.returncode in (1, 2), fetch.stderr  # 2: there is no such run any more
        assert "not fetched: " in fetch.stderr or run in fetch.stderr, fetch.stderr
    nothing_goes_on(gpu01)
    assert rows(deployed) == []


def test_an_image_copy_and_an_image_prune(
    orch: Orch, gpu01: Host, gpu02: Host, chance: random.Random
) -> None:
    """Of eve's, so that no image goes that is another test's."""
    eve, image, whose = orch.by("eve"), "orch/eve-mnist:1", json.dumps({"person": "eve", "project": "mnist"})
    labels = ["-c", "LABEL orch.recipe=r", "-c", f"LABEL orch.image={json.dumps(whose)}"]
    made = shlex.join(["docker", "import", *labels, "-", image])
    gpu01.run(f"cd /tmp && head -c 9000000 /dev/urandom > e && tar -c e | {made}; rm e")
    before = set(gpu02.docker("images", "-a", "-q").split())
    copying = eve.start("image", "copy", image, "gpu01", "gpu02")
    copy, prune = both(chance, copying, eve.on("desk"), "image", "prune", "--yes", "gpu02")
    assert prune.returncode == 0, prune.stderr
    assert copy.returncode == 0 or re.search("did not arrive whole|gone again", copy.stderr), copy.stderr
    nothing_goes_on(gpu01, gpu02)
    assert layers(gpu02, image) in (layers(gpu01, image), [])
    eve("image", "copy", image, "gpu01", "gpu02")
    assert layers(gpu02, image) == layers(gpu01, image) != []
    eve("image", "prune", "--yes", "gpu01", "gpu02")
    assert set(gpu02.docker("images", "-a", "-q").split()) == before
    assert image not in gpu01.images()
