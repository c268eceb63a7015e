"""orch deploy, down and ssh-config on machines that only pretend: order, words and exit codes."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.engine import Environment
from orchestrator.container.image.recipe import recipe
from orchestrator.container.inputs import Inputs
from orchestrator.errors import LostConnection, Unreachable
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine, FakeStream, text_of
from orchestrator.inventory import Settings
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


def pins_of(machine: FakeMachine) -> bytes | None:
    """The versions that a build was given; None where nothing was built."""
    built = [s for s, asked in zip(machine.streams, machine.streamed, strict=True) if asked.name == "build"]  # type: ignore[union-attr]
    if not built:
        return None
    with tarfile.open(fileobj=io.BytesIO(bytes(built[0].written).split(b"\n", 1)[1])) as archive:
        pins = archive.extractfile("pins.txt")
        assert pins
        return pins.read()


def test_two_hosts_of_one_deploy_get_the_same_packages(project: Path) -> None:
    inventory = "gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\nrequirements=six\n"
    (project / "hosts.ini").write_text(inventory)
    called = call(project, "deploy", "--yes", "gpu01,gpu02", prepare=answers(f"{DOCKER}\n{BASE}"))
    assert called.status == 0
    assert sorted(map(pins_of, called.machines.values())) == [b"", b"numpy==1.23.5\n"]


def test_a_host_that_has_the_image_gives_its_packages(project: Path) -> None:
    inventory = "gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\nrequirements=six\n"
    (project / "hosts.ini").write_text(inventory)
    wanted = recipe("tensorflow/tensorflow:2.9.3", Settings(), Inputs(requirements=("six",)))
    tag = f"orch/ana-mnist:{wanted.digest[:12]}"
    image = json.dumps({"id": "sha256:cc", "arch": "amd64", "labels": {"orch.recipe": wanted.digest}})

    def prepare(machine: FakeMachine) -> None:
        there = f"\nimage\t{tag}\t{image}" if machine.host.name == "gpu02" else ""
        answers(f"{DOCKER}\n{BASE}{there}")(machine)

    called = call(project, "deploy", "--yes", "gpu01,gpu02", prepare=prepare)
    assert called.status == 0
    assert f"use      {tag} (there already)" in called.err
    assert [pins_of(m) for m in called.machines.values()] == [b"numpy==1.23.5\n", None]


def with_dockerfile(project: Path, text: str = "FROM debian:12\nCOPY a /a\nRUN false\n") -> Path:
    folder = project / "image"
    folder.mkdir()
    (folder / "Dockerfile").write_text(text)
    (folder / "a").write_text("0123456789")
    (project / "hosts.ini").write_text(
        "gpu01\n[all:vars]\nperson=ana\nproject=mnist\ndockerfile=image/Dockerfile\n"
    )
    return folder


def test_a_dockerfile_of_ones_own_is_built_first(project: Path) -> None:
    with_dockerfile(project)

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out="Step 1/3 : FROM debian:12\n")

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert called.status == 0
    assert "./Dockerfile + sshd, python3 if it has none   (built first, of 2 files, 45 B)\n" in called.err
    machine = called.machines["gpu01"]
    assert [getattr(s, "name", "") for s in machine.streamed] == ["turn", "build base", "build", "turn"]
    _exports, rest = bytes(machine.streams[1].written).split(b"\n", 1)
    with tarfile.open(fileobj=io.BytesIO(rest)) as archive:
        assert archive.getnames() == ["Dockerfile", "a"]
    base, top = (text_of(s) for s in machine.streamed[1:3])
    tag = re.search(r"--tag (orch/ana-mnist-base:[0-9a-f]{12})-([0-9a-f]{8}) --file Dockerfile --label", base)
    assert tag
    staged = f"{tag.group(1)}-{tag.group(2)}"
    assert f"engine tag {staged} {tag.group(1)} </dev/null" in top
    assert f"FROM {tag.group(1)}\n".encode() in bytes(machine.streams[2].written)
    assert "--label orch.recipe=" in top
    assert '--label orch.image=\'{"person": "ana", "project": "mnist"' in top


def test_a_context_that_was_cut_off_makes_no_image(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut between two files, it looks whole to a builder."""
    with_dockerfile(project)
    whole = FakeStream.write

    def cut(stream: FakeStream, data: bytes) -> None:
        if stream.written and b"Dockerfile" in data:
            raise LostConnection("the connection, or the command on it, went", where="gpu01")
        whole(stream, data)

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out="Successfully built 1\n")

    monkeypatch.setattr(FakeStream, "write", cut)
    called = call(project, "deploy", "--yes", prepare=prepare)
    assert (called.status, "gpu01: the build context was cut off" in called.err) == (69, True)
    assert [getattr(s, "name", "") for s in called.machines["gpu01"].streamed if s] == ["turn", "build base"]


def test_a_failing_line_of_ones_own_dockerfile_is_named(project: Path) -> None:
    folder = with_dockerfile(project)
    log = (
        "Step 3/3 : RUN false\n"
        + "".join(f"line {n}\n" for n in range(30))
        + "x returned a non-zero code: 1\n"
    )

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out=log, status=1)

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert called.status == 78
    assert called.err.endswith(f"orch: {folder}/Dockerfile:3: RUN false ended with status 1 on gpu01\n")
    assert "  | line 10\n" not in called.err
    kept = re.search(r"  \| all of it: (.*)\n", called.err)
    assert kept
    assert Path(kept.group(1)).read_text() == log


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (
            "manifest for debian:12 not found: manifest unknown",
            78,
            "Dockerfile:1: there is no image debian:12. Correct FROM",
        ),
        ("write /x: no space left on device", 1, "orch: gpu01: no space is left on the host ("),
        (
            "dial tcp: lookup registry-1.docker.io: no such host",
            1,
            "orch: gpu01: the host has no way out to the registry (",
        ),
    ],
)
def test_why_ones_own_base_cant_be_had(project: Path, said: str, status: int, words: str) -> None:
    folder = with_dockerfile(project)

    def prepare(machine: FakeMachine) -> None:
        answers()(machine)
        machine.answer("build base", out=f"Step 1/3 : FROM debian:12\n{said}\n", status=1)

    called = call(project, "deploy", "--yes", prepare=prepare)
    assert (called.status, words in called.err) == (status, True), called.err
    assert f"{folder}/Dockerfile:1" in called.err


def test_a_dry_run_shows_ones_own_dockerfile_and_context(project: Path) -> None:
    folder = with_dockerfile(project)
    called = call(project, "deploy", "--dry-run", "-v", prepare=answers())
    assert f"---- gpu01: {folder}/Dockerfile, built first\nFROM debian:12\nCOPY a /a\n" in called.out
    assert f"---- gpu01: {folder}, its build context (2 files, 45 B)\n" in called.out
    assert re.search(r"^f 0644 +10 a$", called.out, re.MULTILINE)
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"]


def test_an_id_names_an_image_that_is_there(project: Path) -> None:
    name = "sha256:" + "ab" * 32
    (project / "hosts.ini").write_text(f"gpu01\n[all:vars]\nperson=ana\nproject=mnist\nimage={name}\n")
    called = call(project, "deploy", "--yes", prepare=answers())
    assert called.status == 78
    assert f"hosts.ini:5: there is no image {name} on gpu01. See there: docker images" in called.err
    there = BASE.replace("tensorflow/tensorflow:2.9.3", name)
    called = call(project, "deploy", "--yes", prepare=answers(f"{DOCKER}\n{there}"))
    assert called.status == 0
    machine = called.machines["gpu01"]
    assert f"engine tag {name} orch/base:abababababab" in text_of(machine.streamed[1])
    assert b"FROM orch/base:abababababab\n" in bytes(machine.streams[1].written)


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


def deployed(running: bool = True, **labels: str) -> str:
    known = {"orch.person": "ana", "orch.project": "mnist", "orch.folder": "x:/y", **labels}
    made: dict[str, Any] = {"id": "c0ffee", "name": "/orch-ana-mnist", "image": "sha256:dd", "labels": known}
    return "container\t" + json.dumps({**made, "state": {"Running": running}, "bindings": {}})


def test_down_removes_the_container(project: Path) -> None:
    prepare = answers(f"{DOCKER}\n{deployed()}", f"owner\t1001\nenvironment\t{CONTAINER.text()}")
    called = call(project, "down", "--yes", "gpu01", prepare=prepare)
    assert called.status == 0
    assert called.out == f"gpu01   down; runs and data are in {PLACE}\n"
    assert names(called.machines["gpu01"]) == ["docker+place", "docker+place", "down"]


def test_down_refuses_while_a_run_lives(project: Path) -> None:
    place = "owner\t1001\nlive\t20261130-0214-nightly-7f3a\t" + json.dumps({"container": "c0ffee"})
    called = call(project, "down", "--yes", "gpu01", prepare=answers(f"{DOCKER}\n{deployed()}", place))
    assert called.status == 75
    assert "20261130-0214-nightly-7f3a" in called.err
    assert "--replace" in called.err
    assert names(called.machines["gpu01"]) == ["docker+place"]


def one_then_other(*each: Callable[[FakeMachine], None]) -> Callable[[FakeMachine], None]:
    """Answer the questions for facts in turn: the host has changed meanwhile."""

    def prepare(machine: FakeMachine) -> None:
        each[0](machine)
        left = list(each)

        def reply(asked: Any) -> Result:
            now = FakeMachine(machine.host)
            left.pop(0)(now)
            return now.run(asked)

        machine.answer(re.compile(r"orch-fact-[0-9a-f]+"), reply)

    return prepare


LIVES = "owner\t1001\nlive\t20261130-0214-nightly-7f3a\t" + json.dumps({"container": "c0ffee"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            answers(f"{DOCKER}\n{BASE}"),
            answers(f"{DOCKER}\n{BASE}\n{deployed()}"),
        ),  # another deploy came first
        (
            answers(f"{DOCKER}\n{BASE}\n{deployed()}"),
            answers(f"{DOCKER}\n{BASE}\n{deployed()}", LIVES),
        ),  # a run began
    ],
)
def test_what_changed_while_a_person_thought_is_not_deployed_over(
    project: Path, before: Callable[[FakeMachine], None], after: Callable[[FakeMachine], None]
) -> None:
    called = call(project, "deploy", "--yes", "gpu01", prepare=one_then_other(before, after))
    assert called.status == 75
    assert called.err.endswith(
        "orch: gpu01: what is there has changed since the plan was made. Deploy again.\n"
    )
    assert names(called.machines["gpu01"]) == ["system+gpu+docker+place"] * 2


def test_a_run_that_began_while_a_person_thought_is_not_ended_by_down(project: Path) -> None:
    facts = f"{DOCKER}\n{deployed()}"
    called = call(
        project, "down", "--yes", "gpu01", prepare=one_then_other(answers(facts), answers(facts, LIVES))
    )
    assert (called.status, names(called.machines["gpu01"])) == (75, ["docker+place"] * 2)
    assert "20261130-0214-nightly-7f3a has begun meanwhile" in called.err


@pytest.mark.parametrize("verb", ["deploy", "down"])
def test_one_change_at_a_time(project: Path, verb: str) -> None:
    def prepare(machine: FakeMachine) -> None:
        answers(f"{DOCKER}\n{BASE}\n{deployed()}")(machine)
        machine.answer("turn", out="taken deploy by bob@desk (begun 3 s ago)\n")

    called = call(project, verb, "--yes", "gpu01", prepare=prepare)
    assert called.status == 75
    assert "a deploy by bob@desk (begun 3 s ago) is going on. Try again when it is done." in called.err


def test_down_leaves_what_is_somebody_elses(project: Path) -> None:
    theirs = deployed(**{"orch.person": "an", "orch.project": "a-mnist"})
    called = call(project, "down", "--yes", "gpu01", prepare=answers(f"{DOCKER}\n{theirs}"))
    assert called.status == 1
    assert "'a-mnist' of 'an'" in called.err


def test_down_of_nothing_is_no_failure(project: Path) -> None:
    called = call(project, "down", "gpu01", prepare=answers())
    assert (called.status, called.out) == (0, "gpu01   nothing is deployed here\n")


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
    assert "  venv       install  Python 3.10.4   tensorflow-cpu==2.9.3" in called.err
    machine = called.machines["gpu01"]
    assert names(machine) == ["system+gpu+place+own", "place", "folders", "proof", "finish"]
    assert machine.modes[f"{PLACE}/hosts/gpu01/enter.part"] == 0o600
