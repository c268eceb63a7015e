"""Which engine `auto` means: by the real script, with programs that say what engines say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.container.settle import BEST_FIRST, pick, settle
from orchestrator.container.survey import SURVEYS
from orchestrator.facts.engines import EnginesReport, parse
from orchestrator.facts.question import Section
from orchestrator.hosts.fake import FakeMachine
from orchestrator.render import render
from tests.unit.deploys import host
from tests.unit.here import record, venv_in

DENIED = 'echo "Got permission denied while trying to connect to the Docker daemon socket" >&2; exit 1'
DOWN = 'echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock." >&2; exit 1'


def asked(folder: Path, **programs: str) -> EnginesReport:
    """Ask a host that has these programs and the tools of the script, and nothing else."""
    tools = folder / "tools"
    tools.mkdir()
    for tool in ("id", "sed", "cut", "uname", "tr", "timeout", "true"):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")
    for name, text in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    text = render(
        "facts/engines.sh.j2", docker=("docker",), activate=None, place=str(folder), program="apptainer"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", text], capture_output=True, text=True, check=True, env={"PATH": str(tools)}
    )
    return parse(Section(done.stdout, 0))


@pytest.mark.parametrize(
    ("programs", "engine", "why"),
    [
        ({"docker": "echo 26.1.3", "podman": "echo 4.3"}, "docker", "it answers"),
        ({"docker": DENIED}, "venv", "docker is not allowed for root; no podman there; no apptainer there"),
        ({"docker": DOWN, "podman": "echo 4.3.1"}, "podman", "docker does not run"),
        (
            {"podman": "echo 'cannot set up namespace' >&2; exit 125", "apptainer": "echo apptainer 1.4"},
            "apptainer",
            "no docker there; podman does not answer: cannot set up namespace",
        ),
        ({"singularity": "echo singularity-ce 3.11"}, "apptainer", "no docker there; no podman there"),
        ({"docker": "echo Podman Engine 4.3.1", "podman": "echo 4.3.1"}, "podman", "no docker there"),
    ],
)
def test_the_best_that_can_be_used(tmp_path: Path, programs: dict[str, str], engine: str, why: str) -> None:
    assert pick(asked(tmp_path, **programs)) == (engine, why)


def test_what_is_deployed_stays(tmp_path: Path) -> None:
    record(venv_in(tmp_path))
    found = asked(tmp_path, docker="echo 26.1.3")
    assert pick(found) == ("venv", "it is deployed by that")


def test_it_stands_in_the_host_from_then_on() -> None:
    machine = FakeMachine(host(engine="auto", engine_command=("sudo", "-n", "docker")))
    machine.answer_facts(engines="account\tana\nengine\tapptainer\t0\tapptainer version 1.4.5\n")
    settle(machine, "~/.orch/ana/p")
    assert machine.host.settings.engine == "apptainer"
    assert machine.host.settings.engine_command == (), "that was Docker's"
    assert machine.host.picked == "apptainer (no docker there; no podman there)"
    settle(machine, "~/.orch/ana/p")
    assert len(machine.ran) == 1, "asked once"


def test_every_engine_that_is_picked_can_be_deployed() -> None:
    assert set(BEST_FIRST) <= set(SURVEYS)
