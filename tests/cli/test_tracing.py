"""-v, -vv and --log-file: each command on a host, and no secret."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from orchestrator.cli.app import App
from orchestrator.cli.main import cli
from orchestrator.errors import LostConnection, Unreachable
from orchestrator.hosts import trace
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.some_runs import has_runs, launched
from tests.cli.test_deploy import BASE, DOCKER, answers

SECRETS = {
    "SETTING_KEY": "it's-4-setting",
    "FILE_TOKEN": 'of "a" file',
    "SHORT_KEY": "q7",
    "PLAIN": "postgres://u:pw@h",
}
ENDED = r"< gpu0[12]: runs   \d+\.\d\d s   status 0"
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / ".orchignore").write_text("cache/\nconfig/\n")
    return tmp_path


def test_v_tells_each_command_with_host_time_and_status(project: Path) -> None:
    said = call(project, "ps", "-v", prepare=has_runs)
    assert len(re.findall(f"^{ENDED}$", said.err, re.MULTILINE)) == 2
    assert len(re.findall(r"^< gpu0[12]: connect   \d+\.\d\d s   status 0$", said.err, re.MULTILINE)) == 2
    assert "  | " not in said.err
    assert said.out == call(project, "ps", prepare=has_runs).out


def test_vv_shows_what_is_sent(project: Path) -> None:
    said = call(project, "ps", "-vv", "gpu02", prepare=has_runs)
    assert "> gpu02: runs\n  | " in said.err
    assert said.machines["gpu02"].ran[0].text.splitlines()[3] in said.err


def test_without_v_nothing_is_told_and_the_next_call_starts_afresh(project: Path) -> None:
    call(project, "ps", "-vv", prepare=has_runs)
    assert call(project, "ps", prepare=has_runs).err == ""


def test_a_verb_that_is_called_without_the_program_leaves_nobody_listening(project: Path) -> None:
    app = App(cwd=project, environ={"HOME": str(project)})
    cli.main(["hosts", "-vv"], obj=app, standalone_mode=False)
    assert trace._listeners == []


def test_what_has_no_status_says_so(project: Path) -> None:
    gone = {"gpu01": Unreachable("timed out", where="gpu01")}

    def prepare(machine: FakeMachine) -> None:
        machine.answer(re.compile(""), LostConnection("went", where="gpu02"))

    said = call(project, "ps", "-v", prepare=prepare, failing=gone)
    assert re.search(r"^< gpu01: connect   \S+ s   no status$", said.err, re.MULTILINE)
    assert re.search(r"^< gpu02: runs   \S+ s   no status$", said.err, re.MULTILINE)


def test_a_log_file_holds_all_of_it_for_its_owner_alone(project: Path) -> None:
    log = project / "orch.log"
    log.touch(mode=0o644)
    call(project, "ps", "--log-file", "orch.log", "gpu02", prepare=has_runs)
    gone = {"gpu02": Unreachable("timed out", where="gpu02")}
    said = call(project, "ps", "--log-file=orch.log", "gpu02", failing=gone)
    assert said.err == "orch: gpu02: timed out\n"
    text = log.read_text()
    first, _, second = text.partition("Z exit 0\n")
    assert re.match(rf"{MOMENT}orch ps --log-file orch\.log gpu02\n", first)
    assert re.search(rf"^{MOMENT}> gpu02: runs\n  \| ", first, re.MULTILINE)
    assert re.search(rf"^{MOMENT}{ENDED}$", first, re.MULTILINE)
    assert re.search(rf"^{MOMENT}orch: gpu02: timed out$", second, re.MULTILINE)
    assert second.endswith(" exit 69\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_environment_names_a_log_file_too(project: Path) -> None:
    call(project, "ps", prepare=has_runs, environ={"ORCH_LOG_FILE": "orch.log"})
    assert "> gpu01: runs\n" in (project / "orch.log").read_text()
    said = call(project, "ps", environ={"ORCH_LOG_FILE": "no/such/folder"})
    assert (said.status, said.err) == (
        1,
        f"orch: ORCH_LOG_FILE: {project}/no/such/folder: No such file or directory\n",
    )


def test_no_secret_is_told(project: Path) -> None:
    """Whatever way it takes: a setting, a file, the caller's environment, --env, a proxy's password."""
    hosts = project / "hosts.ini"
    (project / "env").write_text(f"FILE_TOKEN={SECRETS['FILE_TOKEN']}\nLINES_KEY\n")
    hosts.write_text(
        hosts.read_text()
        + f'env = SETTING_KEY="{SECRETS["SETTING_KEY"]}", SHORT_KEY=q7\nenv_file=env\nsecret = WANDB\n'
        + "https_proxy = http://u:proxypw@proxy:3128\n"
    )
    environ = {"WANDB": "xyz", "LINES_KEY": "line one's\nline two"}
    deploying = answers(f"{DOCKER}\n{BASE}")
    words = ("train", "--hosts", "gpu01", "--env", f"PLAIN={SECRETS['PLAIN']}")
    told = [
        call(project, "deploy", "--yes", "-vv", "gpu01", "--log-file=l", prepare=deploying, environ=environ),
        call(project, *words, "-vv", "--log-file=l", "--", "true", prepare=launched(), environ=environ),
        call(project, *words, "-v", "--dry-run", "--", "true", environ=environ),
    ]
    assert [t.status for t in told[1:]] == [0, 0], told[1].err
    assert "start.sh" in told[0].err or "> gpu01: start\n" in told[0].err
    assert "> gpu01: launch\n" in told[1].err
    shown = "".join(t.out + t.err for t in told) + (project / "l").read_text()
    for secret in (*SECRETS.values(), "xyz", "proxypw", "line one", "line two"):
        assert secret not in shown, secret
    assert "it's-4-setting" in told[0].machines["gpu01"].ran[3].text.replace("'\"'\"'", "'")  # it is sent
