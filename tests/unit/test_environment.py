"""What a deploy leaves on a host, and how a command enters it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from orchestrator.container.engine import Environment
from orchestrator.container.ready import NoEnvironment, read_environment
from orchestrator.hosts.command import Command, Raw, Secret
from tests.unit.here import Here, record, venv_in
from tests.until import until

CONTAINER = Environment(
    engine="docker",
    command=("docker",),
    container="c0ffee",
    name="orch-ana-mnist",
    user="ana",
    uid=1001,
    gid=1002,
    home="/home/ana",
    dir="/orch",
    place="/home/ana/.orch/ana/mnist",
    machine="gpu01",
    workspace="/workspace",
    env="e1",
    python="3.8.10",
    person="Ana",
    project="mnist",
    folder="laptop:/src/mnist",
    spec="5e",
    host_keys=("ssh-ed25519 AAAA",),
    port=2222,
)


def venv(folder: Path) -> Environment:
    (folder / "enter").write_text(
        'GREETING=\'hello  there\'; export GREETING\ncd "$1" && shift && exec "$@"\n'
    )
    return venv_in(folder)


def test_it_survives_the_way_through_json() -> None:
    text = CONTAINER.text()
    assert "\n" not in text
    assert Environment.parse(text) == CONTAINER


def test_a_newer_record_is_read_and_a_broken_one_is_not() -> None:
    assert Environment.parse(CONTAINER.text().replace("{", '{"colour": "red", ', 1)) == CONTAINER
    for broken in ("[]", '{"engine": "docker"}', "{", ""):
        with pytest.raises(ValueError):
            Environment.parse(broken)


def test_a_command_enters_by_exec() -> None:
    line = CONTAINER.enter(Command.of("python3", "a b.py"), workdir="/orch/runs/x")
    assert str(line) == "docker exec -u 1001:1002 -w /orch/runs/x c0ffee python3 'a b.py'"
    line = CONTAINER.enter(Command.of("bash"), stdin=True, tty=True)
    assert str(line) == "docker exec -i -t -u 1001:1002 -w /workspace c0ffee bash"


def test_shell_text_gets_a_shell_inside_and_secrets_stay_masked() -> None:
    line = CONTAINER.enter(Command.of("cat", Raw("<"), "a b"))
    assert str(line).endswith("c0ffee /bin/sh -c 'cat < '\"'\"'a b'\"'\"''")
    line = CONTAINER.enter(Command.of("login", Secret("hunter2"), Raw("2>&1")))
    assert "hunter2" not in str(line)
    assert "hunter2" in line.shell()


def test_a_command_enters_a_venv(tmp_path: Path) -> None:
    line = venv(tmp_path).enter(
        Command.of("sh", "-c", 'printf "%s|%s" "$PWD" "$GREETING"'), workdir=str(tmp_path)
    )
    out = subprocess.run(["sh", "-c", line.shell()], capture_output=True, text=True, check=True)
    assert out.stdout == f"{tmp_path}|hello  there"


def sh(environment: Environment, line: str, *path: Path) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join([*map(str, path), os.environ["PATH"]])
    text = f"LC_ALL=C; export LC_ALL\n{environment.script()}{line}"  # as every framed script begins
    return subprocess.run(
        ["sh", "-c", text], check=False, capture_output=True, text=True, env={"PATH": search}, timeout=20
    )


def test_scripts_enter_a_venv_by_its_functions(tmp_path: Path) -> None:
    inside = tmp_path / "a b"
    inside.mkdir()
    done = sh(venv(tmp_path), f"orch_enter '{inside}' sh -c 'pwd; echo \"$GREETING\"; exit 3'")
    assert (done.stdout, done.returncode) == (f"{inside}\nhello  there\n", 3)
    assert sh(venv(tmp_path), "orch_ready").returncode == 1
    (tmp_path / "whole").touch()
    assert sh(venv(tmp_path), "orch_ready").returncode == 0


def test_a_command_in_a_venv_has_its_own_locale(tmp_path: Path) -> None:
    asks = f"sh -c 'echo ${{LC_ALL-none}} > {tmp_path}/said.part; mv {tmp_path}/said.part {tmp_path}/said'"
    for how in ("orch_enter", "orch_detach"):
        (tmp_path / "said").unlink(missing_ok=True)
        sh(venv(tmp_path), f"{how} '{tmp_path}' {asks}")
        until((tmp_path / "said").exists, "what it says")
        assert (tmp_path / "said").read_text() == "none\n", how


def test_a_detached_command_is_not_waited_for(tmp_path: Path) -> None:
    waits = "until [ -e go ]; do sleep 0.05; done"
    sh(
        venv(tmp_path),
        f"orch_detach '{tmp_path}' sh -c '{waits}; echo \"$GREETING\" > done.part; mv done.part done'",
    )
    (tmp_path / "go").touch()
    until((tmp_path / "done").exists, "its end")
    assert (tmp_path / "done").read_text() == "hello  there\n"


def fake_docker(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "docker").write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\n{text}\n')
    (folder / "docker").chmod(0o755)
    return folder


def test_a_stopped_container_is_started_and_waited_for(tmp_path: Path) -> None:
    bin = fake_docker(
        tmp_path / "bin",
        f'case "$1" in inspect) [ -f {tmp_path}/up ] && echo running || echo exited;; '
        f"start) touch {tmp_path}/up;; esac",
    )
    assert sh(CONTAINER, "orch_ready", bin).returncode == 0
    assert [c.split()[0] for c in (bin / "calls").read_text().splitlines()] == ["inspect", "start", "exec"]


def test_a_container_that_is_gone_is_said(tmp_path: Path) -> None:
    bin = fake_docker(tmp_path / "bin", "echo 'Error: No such object: c0ffee' >&2; exit 1")
    done = sh(CONTAINER, "orch_ready", bin)
    assert (done.returncode, done.stdout) == (1, "gone container orch-ana-mnist is gone\n")


@pytest.mark.parametrize(
    ("docker", "said"),
    [
        ("echo paused", "paused orch-ana-mnist\n"),
        (
            "echo 'Cannot connect to the Docker daemon' >&2; exit 1",
            "engine Cannot connect to the Docker daemon\n",
        ),
        ("exec sleep 60", "engine \n"),
        ('[ "$1" = start ] && { echo no space >&2; exit 1; }; echo exited', None),
    ],
)
def test_what_keeps_commands_out_is_said(tmp_path: Path, docker: str, said: str | None) -> None:
    bin = fake_docker(tmp_path / "bin", docker)
    (bin / "timeout").write_text('#!/bin/sh\nshift\nexec /usr/bin/timeout 1 "$@"\n')  # nobody waits a minute
    (bin / "timeout").chmod(0o755)
    done = sh(CONTAINER, "orch_ready", bin)
    expected = said or "gone container orch-ana-mnist does not start: no space\n"
    assert (done.returncode, done.stdout) == (1, expected)


def test_a_record_that_makes_no_sense_is_named_and_a_fifo_is_none(tmp_path: Path) -> None:
    environment = venv(tmp_path)
    here = record(environment)
    (tmp_path / "account").mkdir()
    machine = Here(tmp_path / "account", "/bin/sh")
    (here / "environment.json").write_text("{")
    with pytest.raises(NoEnvironment, match=re.escape(f"{here}/environment.json makes no sense")):
        read_environment(machine, environment.place, ready=False)
    (here / "environment.json").unlink()
    os.mkfifo(here / "environment.json")
    with pytest.raises(NoEnvironment, match="nothing is deployed here"):
        read_environment(machine, environment.place, ready=False)
