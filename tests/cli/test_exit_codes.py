"""The exit code of every verb: for a host that is away, closed or broken, a bad word, a bad file, Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.app import App
from orchestrator.cli.main import VERBS
from orchestrator.errors import (
    Busy,
    ConfigError,
    HostError,
    LostConnection,
    NotPermitted,
    OrchError,
    Refused,
    Unreachable,
)
from tests.cli.calling import call
from tests.cli.test_deploy import BASE, DOCKER, answers

REACHING = {
    "init": "init gpu01",
    "doctor": "doctor gpu01",
    "deploy": "deploy --yes gpu01",
    "train": "train --hosts gpu01 -- true",
    "ps": "ps gpu01",
    "tail": "tail --hosts gpu01 nightly",
    "gpu-status": "gpu-status gpu01",
    "tensorboard": "tensorboard --hosts gpu01 nightly",
    "jupyter": "jupyter gpu01",
    "stop": "stop --hosts gpu01 nightly",
    "diff": "diff --hosts gpu01 first second",
    "why": "why --hosts gpu01 nightly",
    "ls": "ls --hosts gpu01 nightly",
    "fetch": "fetch --hosts gpu01 nightly",
    "cp": "cp gpu01:x .",
    "exec": "exec gpu01 -- true",
    "ssh": "ssh gpu01 true",
    "ssh-config": "ssh-config gpu01",
    "down": "down --yes gpu01",
    "image": "image ls gpu01",
    "image prune": "image prune --yes gpu01",
}
"""A command line of each verb that goes to one host."""

ELSEWHERE = {"hosts", "login", "schedule", "demo", "rerun", "resume"}
"""Verbs that reach no host themselves, or by ssh alone, or look for a run on all hosts."""

reaching = pytest.mark.parametrize("line", REACHING.values(), ids=REACHING)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    (tmp_path / "train.py").touch()
    (tmp_path / ".orchignore").write_text("config/\ncache/\n")
    return tmp_path


def test_every_verb_is_here() -> None:
    assert {words.split()[0] for words in REACHING} | ELSEWHERE == set(VERBS)


@reaching
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unreachable("timed out", where="gpu01"), 69),
        (LostConnection("it went", where="gpu01"), 69),
        (NotPermitted("no key fits", where="gpu01"), 77),
        (ConfigError("no such key file", where="hosts.ini:1"), 78),
        (Busy("a deploy goes on", where="gpu01"), 75),
        (HostError("no more sessions", where="gpu01"), 1),
        (Refused("somebody else's", where="gpu01"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, OrchError) else "",
)
def test_a_host_that_cant_be_used(project: Path, line: str, error: OrchError, code: int) -> None:
    said = call(project, *line.split(), failing={"gpu01": error})
    assert said.status == code
    assert error.message in said.err + said.out or "connection lost" in said.out
    assert "Traceback" not in said.err


@reaching
def test_ctrl_c(project: Path, line: str) -> None:
    said = call(project, *line.split(), failing={"gpu01": KeyboardInterrupt()})  # type: ignore[dict-item]
    assert (said.status, said.out) == (130, "")


@pytest.mark.parametrize(
    "line", [*REACHING.values(), "hosts", "schedule list"], ids=[*REACHING, "hosts", "schedule"]
)
def test_an_option_that_is_not_there(project: Path, line: str) -> None:
    verb, *rest = line.split()
    before = [rest.pop(0)] if verb in ("image", "schedule") else []
    said = call(project, verb, *before, "--no-such-option", *rest)
    assert (said.status, said.out, said.machines) == (2, "", {})
    assert "no-such-option" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "line", [*REACHING.values(), "hosts", "login gpu01"], ids=[*REACHING, "hosts", "login"]
)
def test_a_broken_inventory(project: Path, line: str) -> None:
    (project / "hosts.ini").write_text("gpu01 engine=nonsense\n")
    said = call(project, *line.split())
    assert (said.status, said.out, said.machines) == (78, "", {})
    assert "hosts.ini:1: engine: 'nonsense' is not supported" in said.err


@pytest.mark.parametrize("line", [line for line in REACHING.values() if "gpu01" in line.split()])
def test_a_host_that_is_not_there(project: Path, line: str) -> None:
    said = call(project, *line.replace("gpu01", "gpu9*").split())
    if line.startswith("init "):  # a name for ssh, not a pattern
        return
    assert (said.status, said.machines) == (2, {})
    assert "gpu9*" in said.err


@pytest.mark.parametrize(
    "line", ["doctor", "ps", "gpu-status", "deploy --yes all", "down --yes all", "image ls"]
)
def test_all_hosts_away_and_one_of_two(project: Path, line: str) -> None:
    away = {name: Unreachable("timed out", where=name) for name in ("gpu01", "gpu02")}
    assert call(project, *line.split(), failing=away).status == 69
    both = {"gpu01": away["gpu01"], "gpu02": NotPermitted("no key fits", where="gpu02")}
    assert call(project, *line.split(), failing=both).status == 1


@pytest.mark.parametrize("option", ["-v", "--hosts", "--inventory"])
def test_an_option_before_its_verb_is_told_where_it_stands(project: Path, option: str) -> None:
    said = call(project, option, "ps")
    assert said.status == 2
    assert said.err.startswith(f"orch: no option {option} before the verb. A verb's options stand behind it")


@pytest.mark.parametrize(
    "words", [(), ("-h",), ("--help",), ("--version",), *((verb, "--help") for verb in VERBS)]
)
def test_help_is_no_failure(project: Path, words: tuple[str, ...]) -> None:
    said = call(project, *words)
    assert said.status == 0 or not words  # without any word it is 0 or 2, as this click has it
    assert said.err == "" or not words


@pytest.mark.parametrize("line", ["deploy gpu01", "down gpu01"])
def test_no_to_the_question_is_told_and_1(project: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.test_down import deployed

    monkeypatch.setattr(App, "interactive", staticmethod(lambda: True))
    monkeypatch.setattr("click.confirm", lambda *_args, **_more: False)
    facts: dict[str, Callable] = {  # type: ignore[type-arg]
        "deploy gpu01": answers(f"{DOCKER}\n{BASE}"),
        "down gpu01": answers(f"{DOCKER}\n{deployed()}"),
    }
    said = call(project, *line.split(), prepare=facts[line])
    assert (said.status, said.out) == (1, "")
    assert said.err.endswith("orch: nothing was done: you said no\n")


@pytest.mark.parametrize("name", ["gpu\n01", "gpu\x1b[2J", "gpu\r01", "gpu\x0b1"])
def test_an_error_is_one_line_whatever_is_quoted_in_it(tmp_path, name):
    for words in ([name], ["--inventory", name], ["--inventory", f"{name}/x"]):
        called = call(tmp_path, "doctor", *words)
        assert (len(called.err.splitlines()), name in called.err) == (1, False), words


@pytest.mark.parametrize("line", ["deploy --yes", "down --yes", "image prune --yes", "ps"])
def test_an_empty_name_is_not_all_hosts(tmp_path, line):
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n")
    called = call(tmp_path, *line.split(), "")
    assert (called.status, called.out, called.machines) == (2, "", {})
    assert "'' names no host" in called.err
