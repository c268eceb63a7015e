"""orch doctor on machines that only pretend."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.doctor import Diagnosis, next_step
from orchestrator.doctor.check import fail, ok, warn
from orchestrator.errors import NotPermitted, OrchError, Unreachable
from orchestrator.hosts.fake import FakeMachine

from .calling import Called, call

SYSTEM = """\
arch\tx86_64
os-name\tDebian GNU/Linux 12
uid\t1500
user\tana
shell\t/bin/bash
cpus\t8
cpu-flags\tavx
memory\t32000000
root\t/home/ana/.orch
disk\t/home/ana/.orch\t900000000\t600000000\t10000000
tool\ttar
tool\tbase64
tool\tflock
time\t1796054273"""
INFO = '{"ServerVersion":"26.1.0","DockerRootDir":"/var/lib/docker"}'
IMAGE = '{"id":"sha256:1","arch":"amd64","labels":{},"digests":[]}'
DOCKER = f"""\
client\tDocker version 26.1.0, build 1
status\t0
info\t{INFO}
disk\t/var/lib/docker\t900000000\t600000000\t10000000"""
HAS_IMAGE = f"{DOCKER}\nimage\ttensorflow/tensorflow:2.9.3\t{IMAGE}"
NO_DOCKER = "missing\tdocker"

Answer = Mapping[str, str] | OrchError
Run = Callable[..., Called]


def well(**facts: str) -> dict[str, str]:
    return {"system": SYSTEM, "gpu": "cards\t0", "docker": HAS_IMAGE, "place": "place\t/x", **facts}


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the verb over hosts that answer so."""
    monkeypatch.setattr("time.time", lambda: 1796054273.0)

    def run(answers: Mapping[str, Answer], *words: str) -> Called:
        (tmp_path / "hosts.ini").write_text("\n".join(answers) + "\n")

        def prepare(machine: FakeMachine) -> None:
            answer = answers[machine.host.name]
            assert isinstance(answer, Mapping)
            machine.answer_facts(**answer)

        away = {name: answer for name, answer in answers.items() if isinstance(answer, OrchError)}
        return call(tmp_path, "doctor", *words, prepare=prepare, failing=away)

    return run


def test_one_host_with_every_check_and_the_next_step(doctor: Run) -> None:
    called = doctor({"gpu01": well()})
    assert called.out.splitlines() == [
        "gpu01   ready",
        "  ok    reachable   gpu01",
        "  ok    login       ana (1500), Debian GNU/Linux 12, /bin/bash",
        "  ok    processor   x86_64, 8 CPUs, 31 GB memory",
        "  ok    tools       tar, base64",
        "  ok    root        614 GB free in /home/ana/.orch",
        "  ok    clock       as here",
        "  ok    docker      26.1.0",
        "  ok    room        614 GB free in /var/lib/docker",
        "  ok    image       tensorflow/tensorflow:2.9.3 is there",
        "  ok    ssh port    auto: 2222 is free",
        "  ok    gpus        no NVIDIA GPU: training runs on the CPU",
    ]
    assert "next:   orch deploy --hosts gpu01" in called.err
    assert called.status == 0
    assert len(called.machines["gpu01"].ran) == 1


def test_a_second_exec_only_where_an_image_must_be_looked_for(doctor: Run) -> None:
    called = doctor({"gpu01": well(docker=DOCKER, tag="status\t1\nsaid\tno such manifest: x")})
    assert "FAIL  image" in called.out
    assert called.status == 1
    assert [m.name for m in called.machines["gpu01"].ran] == ["system+gpu+docker+place+changed", "tag"]


def test_the_next_step_is_a_deploy_only_where_one_is_missing() -> None:
    done = Diagnosis("a", (ok("docker", "26.1.0"), ok("deployed", "orch-ana-mnist, as it was deployed")))
    stopped = Diagnosis("b", (warn("deployed", "orch-ana-mnist is stopped", "orch deploy"),))
    new, away = Diagnosis("c", (ok("docker", "26.1.0"),)), Diagnosis("d", (fail("reachable", "no", "see"),))
    assert next_step([done, stopped, new, away]) == "orch deploy --hosts b,c"
    assert next_step([done, away]) == "orch train --hosts a -- python3 train.py"
    assert next_step([away]) is None


def test_same_hosts_stand_together_and_show_what_is_not_well(doctor: Run) -> None:
    broken = well(docker=NO_DOCKER)
    hosts: dict[str, Answer] = {"a": well(), "b": broken, "c": well(), "d": broken}
    called = doctor(hosts)
    assert called.out.splitlines() == [
        "a,c   ready",
        "b,d   1 to fix",
        "  FAIL  docker   docker is not installed",
        "                 -> Install Docker (https://docs.docker.com/engine/install), or engine = venv.",
    ]
    assert "next:   orch deploy --hosts a,c" in called.err
    assert called.status == 1


def test_with_v_every_check_of_several_hosts(doctor: Run) -> None:
    out = doctor({"a": well(), "b": well(docker=NO_DOCKER)}, "-v").out
    assert out.count("  ok  ") == 11 + 7


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"a": Unreachable("timed out"), "b": Unreachable("refused")}, 69),
        ({"a": Unreachable("timed out"), "b": well()}, 1),
        ({"a": NotPermitted("login refused")}, 77),
    ],
)
def test_exit_codes_of_hosts_that_are_not_reached(
    doctor: Run, answers: Mapping[str, Answer], code: int
) -> None:
    called = doctor(answers)
    assert called.status == code
    assert "FAIL  reachable" in called.out


def test_json(doctor: Run) -> None:
    called = doctor({"a": well(docker=NO_DOCKER), "b": Unreachable("timed out")}, "--json")
    hosts: list[dict[str, Any]] = json.loads(called.out)["rows"]
    assert [(h["host"], h["ok"]) for h in hosts] == [("a", False), ("b", False)]
    assert {"name", "level", "message", "hint"} == set(hosts[0]["checks"][0])
    assert hosts[1]["checks"][0]["level"] == "fail"
    assert called.status == 1


def test_hosts_that_could_train_together_are_the_next_step() -> None:
    both = ok("together", "gpu01, gpu02 could train together: the same environment")
    done = (ok("deployed", "orch-ana-mnist, as it was deployed"), both)
    hosts = [Diagnosis("gpu01", done), Diagnosis("gpu02", done), Diagnosis("gpu03", done[:1])]
    assert next_step(hosts) == "orch train --hosts gpu01,gpu02 -- python3 train.py"


def test_several_hosts_have_a_row_that_says_whether_they_could_train_together(doctor: Run) -> None:
    out = doctor({"a": well(), "b": well()}, "-v").out
    assert "  skip  together    a, b: not set up for runs on several hosts" in out
    assert "together" not in doctor({"a": well()}, "-v").out
