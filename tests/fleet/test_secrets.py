"""Secrets reach the training, and are nowhere else: on no command line, in no record, log or archive."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.until import until

from .lab import Host
from .orch import Orch
from .small import IMAGE, built
from .test_path import run_id

WHERE = ("--hosts", "gpu01")
SECRETS = {  # by where it is taken from
    "BY_SECRET": "qa7-of-the-setting-secret",
    "BY_FILE": "qa7 of --env-file 'quoted'",
    "BY_NAME": "qa7-of-env-without-value",
    "BY_ENV_FILE": "qa7-of-the-setting-env_file",
    "BY_TOKEN_ENV": "qa7-of-the-setting-env",
}
MARK = "qa7"
NAMES = sorted(SECRETS)
TRAIN = """
import hashlib, os, sys, time
for name in NAMES:
    print(name, hashlib.sha256(os.environ[name].encode()).hexdigest(), flush=True)
while os.path.exists("wait"): time.sleep(0.05)
if len(sys.argv) > 1: sys.exit("login with " + os.environ["BY_SECRET"])
"""
WATCH = """
import glob, os, sys
mark = sys.stdin.readline().strip().encode()
print("ready", flush=True)
seen, rounds = set(), 0
os.set_blocking(0, False)
while sys.stdin.buffer.read(1) is None:
    rounds += 1
    for path in glob.iglob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file: words = file.read()
        except OSError: continue
        if mark in words: seen.add(words.replace(b"\\0", b" ").decode("utf-8", "replace"))
print(rounds, flush=True)
for words in seen: print(words)
"""


class Watch:
    """What the command lines of all processes of this machine, and so of its hosts, held of the mark."""

    rounds = 0
    seen: tuple[str, ...] = ()


@contextmanager
def watched() -> Iterator[Watch]:
    watch, pipe = Watch(), subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WATCH], stdin=pipe, stdout=pipe, text=True) as watcher:
        assert watcher.stdin
        assert watcher.stdout
        watcher.stdin.write(f"{MARK}\n")
        watcher.stdin.flush()
        assert watcher.stdout.readline() == "ready\n"
        try:
            yield watch
        finally:
            rounds, *seen = watcher.communicate(timeout=60)[0].splitlines()
            watch.rounds, watch.seen = int(rounds), tuple(seen)


@pytest.fixture
def secretive(orch: Orch, gpu01: Host, tmp_path: Path) -> Iterator[Orch]:
    """ana, whose settings and environment hold secrets; nothing is deployed yet."""
    gpu01.run(f"docker load -qi {built(orch, gpu01)}; rm -rf /home/ana/.orch")
    own = tmp_path / "own"  # outside the project
    own.mkdir()
    inventory = own / "hosts.ini"
    (own / "deploy.env").write_text(f"BY_ENV_FILE={SECRETS['BY_ENV_FILE']}\n")
    settings = ["secret=BY_SECRET", f"env_file={own}/deploy.env"]
    settings.append(f"env=BY_TOKEN_ENV={SECRETS['BY_TOKEN_ENV']}")
    inventory.write_text(orch.fleet.client.inventory("ana").read_text() + "\n".join(settings) + "\n")
    (orch.cwd / "keys.env").write_text(f"BY_FILE={SECRETS['BY_FILE']}\n")
    (orch.cwd / "train.py").write_text(f"NAMES = {NAMES}\n{TRAIN}")
    (orch.cwd / "wait").touch()
    yield orch.having(
        ORCH_IMAGE=IMAGE,
        ORCH_INVENTORY=str(inventory),
        ORCH_LOG_FILE=str(own / "orch.log"),
        BY_SECRET=SECRETS["BY_SECRET"],
        BY_NAME=SECRETS["BY_NAME"],
    )
    gpu01.run("docker rm -f orch-ana-mnist; rm -rf /home/ana/.orch", check=False)


def holding(host: Host, folder: str) -> list[str]:
    """Files below a folder that hold the mark."""
    return host.run(f"grep -rlaFf - {folder}", input=f"{MARK}\n", check=False).stdout.split()


def test_secrets_are_nowhere_but_in_the_training(secretive: Orch, gpu01: Host, tmp_path: Path) -> None:
    orch, said = secretive, []
    train = ("train", "-vv", *WHERE, "--env-file", "keys.env", "--env", "BY_NAME", "--name", "quiet")
    command = ("--", "python3", "train.py")
    with watched() as watch:
        said.append(orch("deploy", "-vv", "--yes", *WHERE))
        said.append(orch(*train, "-d", *command))
        run = run_id(said[-1].stdout)
        said += [
            orch(verb, "-vv", *more) for verb, *more in (("ps",), ("why", "quiet"), ("tail", "--no-follow"))
        ]
        (work,) = gpu01.run(f"ls -d /home/ana/.orch/ana/mnist/runs/{run}/gpu01/work").stdout.split()
        until(lambda: "BY_TOKEN_ENV" in orch("tail", "--no-follow", "quiet").stdout, "the training has begun")
        place = f"/home/ana/.orch/ana/mnist/runs/{run}"
        assert holding(gpu01, place) == [], "no record of a run that lives"
        gpu01.run(f"rm {work}/wait")
        said.append(orch("tail", "-vv", "quiet"))
    assert watch.seen == ()
    assert watch.rounds > 100

    digests = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in SECRETS.items()}
    assert said[-1].stdout == "".join(f"{name} {digests[name]}\n" for name in NAMES)
    assert not [words for words in said if MARK in words.stdout + words.stderr]
    assert MARK not in (tmp_path / "own/orch.log").read_text()
    spec = json.loads(gpu01.run(f"cat {place}/spec.json").stdout)
    assert spec["env"] == ["BY_FILE", "BY_NAME", "BY_SECRET"], "names alone"
    assert holding(gpu01, "/home/ana/.orch") == []
    assert holding(gpu01, "/var/log /tmp /root/.orch") == []
    assert [p for p in orch.home.rglob("*") if p.is_file() and MARK.encode() in p.read_bytes()] == []

    (orch.cwd / "wait").unlink()
    said.append(orch(*train, *command, "leak", code=1))
    run = run_id(said[-1].stdout)
    shown = orch("why", "quiet", "--bundle", tmp_path / "why.tar.gz")
    assert SECRETS["BY_SECRET"] in shown.stdout, "its person sees the log as it is"
    with tarfile.open(tmp_path / "why.tar.gz") as archive:
        files = {m.name: archive.extractfile(m).read().decode() for m in archive}  # type: ignore[union-attr]
    assert "login with ***" in files[f"orch-why-{run}/gpu01/training.log"]
    assert not [name for name, text in files.items() if MARK in text]


def test_a_secret_on_a_command_line_would_be_seen() -> None:
    with watched() as watch:
        words = [sys.executable, "-c", "import time; time.sleep(0.3)", MARK]
        subprocess.run(words, check=True, timeout=60)
    assert len(watch.seen) == 1
