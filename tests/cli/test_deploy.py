"""orch deploy, down and ssh-config on machines that only pretend: order, words and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.container.engine import Environment
from orchestrator.errors import Unreachable
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine, text_of
from tests.cli.calling import call
from tests.unit.test_environment import CONTAINER

PLACE = "/home/ana/.orch/ana/mnist"
SYSTEM = (
    "hostname\tgpu01\narch\tx86_64\nuid\t1001\ngid\t1001\nuser\tana\nhome\t/home/ana\nroot\t/home/ana/.orch"
)
INFO = {"DockerRootDir": "/var/lib/docker", "ServerVersion": "26.1.3", "Architecture": "x86_64"}
DOCKER = f"client\tDocker version 26.1.3, build b\nstatus\t0\ninfo\t{json.dumps(INFO)}"
BASE = 'image\ttensorflow/tensorflow:2.9.3\t{"id": "sha256:bb", "arch": "amd64", "labels": {}, "digests": []}'
SEEN = {
    "python": "3.8.10",
    "tensorflow": "2.9.3",
    "user": "ana",
    "uid": 1001,
    "gid": 1001,
    "home": "/home/ana",
}
STARTED = "answer started\nid c0ffee\nimage sha256:dd\nhost_key ssh-ed25519 AAAA orch\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    return tmp_path


def answers(docker: str = DOCKER, place: str = "", gpu: str = "") -> Callable[[FakeMachine], None]:
    def prepare(machine: FakeMachine) -> None:
        machine.answer_facts(
            system=SYSTEM, gpu=gpu, docker=docker, place=f"place\t{PLACE}\naccount\tana\n{place}"
        )
        machine.answer("build", out="Step 1/9 : FROM x\nSuccessfully built 1\n")
        machine.answer("packages", out="sha256:bb\nnumpy==1.23.5\n")
        machine.answer("start", out=STARTED)
        machine.answer("proof", out=json.dumps(SEEN) + "\n")
        machine.answer("finish")
        machine.answer("down")
        machine.answer("turn", out="yours\n")

    return prepare


def names(machine: FakeMachine) -> list[str]:
    return [s.name for s in machine.ran]


def test_a_deploy_from_nothing(project: Path) -> None:
    called = call(project, "deploy", "--yes", "gpu01", prepare=answers(f"{DOCKER}\n{BASE}"))
    assert called.status == 0
    assert re.fullmatch(
        r"gpu01   ready in \d+ s   Python 3\.8\.10   TensorFlow 2\.9\.3   user ana \(1001\)\n", called.out
    )
    machine = called.machines["gpu01"]
    assert names(machine) == [*["system+gpu+docker+place"] * 2, "packages", "start", "proof", "finish"]
    assert [getattr(s, "name", "") for s in machine.streamed] == ["turn", "build", "turn"]
    assert b"Dockerfile" in machine.streams[1].written
    recorded = re.search(r"'(\{\"engine\".*\})'", machine.ran[-1].text)
    assert recorded
    environment = Environment.parse(recorded.group(1))
    assert (environment.container, environment.place, environment.port) == ("c0ffee", PLACE, 2222)
    assert "gpu01   step 1/9  FROM x\n" in called.err
    assert "Successfully built" not in called.err
    assert "next:   orch train --hosts gpu01 -- python3 train.py      orch ssh gpu01" in called.err


def test_the_engines_own_lines_come_with_v(project: Path) -> None:
    called = call(project, "deploy", "--yes", "-v", "gpu01", prepare=answers(f"{DOCKER}\n{BASE}"))
    assert "gpu01     Step 1/9 : FROM x" in called.err


def test_a_missing_base_is_pulled_first(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("pull", status=1, out="Error: manifest for x not found: manifest unknown\n")

    called = call(project, "deploy", "--yes", "gpu01", prepare=prepare)
    assert called.status == 78
    assert (
        "orch: gpu01: there is no image tensorflow/tensorflow:2.9.3. Correct `image` (default)" in called.err
    )
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"]


def test_without_a_terminal_nothing_is_changed_unasked(project: Path) -> None:
    called = call(project, "deploy", "gpu01", prepare=answers())
    assert called.status == 2
    assert "  container  create   orch-ana-mnist" in called.err
    assert called.err.endswith(
        "orch: a deploy changes things, and there is no terminal to ask on. Add --yes.\n"
    )
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"]


def test_a_dry_run_prints_all_that_would_reach_the_host(project: Path) -> None:
    (project / "env").write_text("TOKEN=hunter2\n")
    (project / "hosts.ini").write_text("gpu01\n[all:vars]\nperson=ana\nproject=mnist\nenv_file=env\n")
    called = call(project, "deploy", "--dry-run", "-v", prepare=answers())
    assert called.status == 0
    for file in ("Dockerfile", "apt", "entrypoint", "sshd_config", "setup.sh", "start"):
        assert f"\n---- gpu01: {file}\n" in called.out
    assert "TOKEN=***" in called.out
    assert "hunter2" not in called.out + called.err
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"]


def test_one_dead_host_hides_no_good_one(project: Path) -> None:
    failing = {"gpu02": Unreachable("connection timed out after 10 s", where="gpu02")}
    called = call(
        project, "deploy", "--yes", "gpu01,gpu02", prepare=answers(f"{DOCKER}\n{BASE}"), failing=failing
    )
    assert called.status == 1
    assert called.out.startswith("gpu01   ready")
    assert "orch: gpu02: connection timed out after 10 s" in called.err


def test_a_failed_proof_takes_the_container_back(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        answers(f"{DOCKER}\n{BASE}")(machine)
        machine.answer("proof", status=1, err="ImportError: libcudart.so.11.0\n")
        machine.answer("undo", out="its last words\n")

    called = call(project, "deploy", "--yes", "gpu01", prepare=prepare)
    assert called.status == 1
    assert "orch: gpu01: the proof from inside failed: ImportError: libcudart.so.11.0" in called.err
    machine = called.machines["gpu01"]
    assert names(machine)[-1] == "undo"
    assert 'rm -f "$made"' in text_of(machine.ran[-1])


def test_a_start_that_fails_says_the_cause_and_the_last_lines(project: Path) -> None:
    why = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'

    def prepare(machine: FakeMachine) -> None:
        answers(f"{DOCKER}\n{BASE}")(machine)
        machine.answer("start", out=f"answer failed\nwhy {why}\nlog one\036two\n")

    called = call(project, "deploy", "--yes", "gpu01", prepare=prepare)
    assert called.status == 1
    assert "  | one\n  | two\norch: gpu01: Docker can't give GPUs to containers here" in called.err


@pytest.mark.parametrize(
    ("docker", "status", "words"),
    [
        ("missing\tdocker", 1, "docker is not installed"),
        (
            "client\tDocker version 26.1.3\ninfo\tpermission denied while trying to connect",
            77,
            "usermod -aG docker ana",
        ),
        ("client\tDocker version 26.1.3\ninfo\tCannot connect to the Docker daemon", 1, "does not run"),
    ],
)
def test_an_engine_that_cant_be_used(project: Path, docker: str, status: int, words: str) -> None:
    for verb in ("deploy", "down"):
        called = call(project, verb, "--yes", "gpu01", prepare=answers(docker))
        assert called.status == status
        assert words in called.err.splitlines()[-1]


def test_ssh_config_pins_the_key(project: Path) -> None:
    pinned = project / "config" / "orch" / "known_hosts"
    pinned.parent.mkdir(parents=True)
    pinned.write_text("orch-mnist-gpu01 ssh-ed25519 OLD\nother ssh-ed25519 KEPT\n")

    def prepare(machine: FakeMachine) -> None:
        machine.answer(
            "environment", out=f"answer there\nenvironment {replace(CONTAINER, person='ana').text()}\n"
        )

    called = call(project, "ssh-config", "gpu01", prepare=prepare)
    assert called.status == 0
    assert "Host orch-mnist-gpu01\n    HostName 127.0.0.1\n    Port 2222\n" in called.out
    assert pinned.read_text() == "other ssh-ed25519 KEPT\norch-mnist-gpu01 ssh-ed25519 AAAA\n"


def test_ssh_config_of_a_host_without_a_container(project: Path) -> None:
    called = call(
        project,
        "ssh-config",
        "gpu01",
        prepare=lambda m: m.answer("environment", out="answer no-environment\n"),
    )
    assert called.status == 1
    assert "nothing is deployed here" in called.err


VENV = f"{SYSTEM}\npython-found\t/usr/bin/python3.10\t/usr/bin/python3.10\t3.10.4\tyes"


def test_a_deploy_that_leaves_what_is_locked_says_so(project: Path) -> None:
    (project / "hosts.ini").write_text("gpu01\n[all:vars]\nperson=ana\nproject=mnist\nengine=venv\n")

    def plan(**wanted: bool) -> str:
        there = replace(CONTAINER, engine="venv", container=None, wanted=wanted).text()

        def prepare(machine: FakeMachine) -> None:
            place = f"place\t{PLACE}\nmachine\tgpu01\nenvironment\t{there}\n"
            machine.answer_facts(system=VENV, gpu="", place=place, own="")

        return call(project, "deploy", "--dry-run", prepare=prepare).out

    said = "what is deployed keeps to image.lock, and this would not: see --locked"
    assert said in plan(locked=True)
    assert said not in plan()


def test_a_venv_is_installed_proven_and_written_down(project: Path) -> None:
    (project / "hosts.ini").write_text("gpu01\n[all:vars]\nperson=ana\nproject=mnist\nengine=venv\n")

    def prepare(machine: FakeMachine) -> None:
        machine.answer_facts(system=VENV, gpu="", place=f"place\t{PLACE}\nmachine\tgpu01\n", own="")
        machine.answer("folders", Result(0, b"", b""))
        machine.answer("install", out="Successfully installed\n")
        machine.answer("turn", out="yours\n")
        machine.answer("proof", out=json.dumps(SEEN) + "\n")
        machine.answer("finish", Result(0, b"", b""))

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert called.status == 0
    assert "next:   orch train --hosts gpu01" in called.err
    assert "next:" not in call(project, "deploy", "--yes", prepare=prepare, inside=True).err
    assert "  venv       install  Python 3.10.4   tensorflow-cpu==2.9.3" in called.err
    machine = called.machines["gpu01"]
    assert names(machine) == ["system+gpu+place+own", "place", "folders", "proof", "finish"]
    assert machine.modes[f"{PLACE}/hosts/gpu01/enter.part"] == 0o600
