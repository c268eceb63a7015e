"""orch jupyter on machines that only pretend: what is asked before it starts, and where its token goes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from orchestrator.cli import forwarding
from orchestrator.cli.app import App
from orchestrator.hosts import forward, masking
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from orchestrator.run.spec import RunSpec
from tests.cli.calling import Called, call
from tests.cli.some_runs import HEAD, NOW, RUN, RUNNING, block, project
from tests.cli.test_tensorboard import ENDED, ENVIRONMENT

__all__ = ["project"]  # a fixture

LAB = "20261130-0215-jupyter-aaaa"
TOKEN = "0123456789abcdef" * 3
ARGV = ("python3", "serve.py", "jupyter", "--folder", "/w")


def notebook(run: str, **state: Any) -> str:
    spec = RunSpec(run, ARGV, ("gpu01",), "ana", "mnist", "9f3c", name="jupyter", kind="jupyter", asked=5.0)
    lines = block(run, {**RUNNING, **state}, lock="free" if state else "held").split("\n")
    lines[1] = f"spec {replace(spec).text()}"
    lines[3] = f"worker {json.dumps({'environment': ENVIRONMENT})}"
    lines.insert(4, "service " + json.dumps({"port": 7001, "used": NOW, "idle": 0}))
    return "\n".join(lines)


class Lab:
    """gpu01 with an environment, `there` saying whether Jupyter is in it; what is led to ends at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: str, run: str = "") -> None:
        self.there, self.run, self.ended = there, run, False
        self.installs = Result(0, b"", b"")
        monkeypatch.setattr(forwarding, "LOOK", 0.0)
        monkeypatch.setattr(forward, "ready", self.led)

    def led(self, *_: object, **__: object) -> set[int]:
        self.ended = True
        return set()

    def prepare(self, machine: FakeMachine) -> None:
        if machine.host.name != "gpu01":
            return
        folder = f"answer there\nrecord /p\nenvironment {json.dumps({**ENVIRONMENT, 'folder': 'x:/y'})}"
        machine.answer("environment", out=folder.replace('"x:/y"', json.dumps(self.folder)))
        machine.answer("jupyter", out=f"orch-jupyter {self.there}\n")
        machine.answer("install-jupyter", lambda _: self.installs)
        machine.answer("launch", self.launched)
        machine.answer_facts()
        machine._answers[-1] = (machine._answers[-1][0], self.runs)
        real = machine.get

        def get(path: str, into: Any) -> None:
            machine.files[path] = TOKEN.encode()
            real(path, into)

        machine.get = get  # type: ignore[method-assign]

    def runs(self, asked: Any) -> Result:
        machine = FakeMachine()
        record = notebook(self.run, **(ENDED if self.ended else {})) if self.run else ""
        machine.answer_facts(runs="\n".join([HEAD, record]))
        return machine._reply(asked)

    def launched(self, asked: Any) -> Result:
        self.run = re.findall(r"[0-9-]{14}jupyter-[0-9a-f]{4}", asked.text)[-1]
        lines = ["answer launched", "place /p", f"state {json.dumps(RUNNING)}", "gpus ", "log "]
        return Result(0, "\n".join(lines).encode(), b"")

    def __call__(self, project: Path, *words: str, terminal: bool = False) -> Called:
        import socket

        self.folder = f"{socket.gethostname()}:{project}"
        return call(project, "jupyter", "gpu01", *words, prepare=self.prepare, terminal=terminal)


def scripts(said: Called) -> list[str]:
    return [script.name for script in said.machines["gpu01"].ran]


def test_the_token_is_printed_on_a_terminal_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Lab(monkeypatch, "True False")(project, terminal=True)
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/\?token={TOKEN}\n", said.out)
    assert TOKEN not in said.err
    kept = Lab(monkeypatch, "True False")(project, "-vv")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", kept.out)
    assert re.search(r"token   gpu01:/home/ana/.orch/ana/mnist/runs/\S+-jupyter-\S+/gpu01/token\n", kept.err)
    assert TOKEN not in kept.err
    assert masking.masked(TOKEN) == "***"  # also in what an error may quote
    launch = next(s.text for s in said.machines["gpu01"].ran if s.name == "launch")
    assert "-- python3 serve.py jupyter --folder /w " in launch
    assert '"gpus": "none"' in launch
    assert said.status == 0


def test_the_living_one_is_found_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Lab(monkeypatch, "True False", run=LAB)(project)
    assert f"run     {LAB} on gpu01, which lives already\n" in said.err
    assert "launch" not in scripts(said)


def test_a_training_of_its_name_is_in_the_way(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is hinted at then is what can be typed: `orch jupyter` has no --again."""
    lab = Lab(monkeypatch, "True False")
    monkeypatch.setattr(lab, "launched", lambda _: Result(0, f"answer named\nwhy {RUN}\n".encode(), b""))
    said = lab(project)
    assert said.status == 75
    assert said.err.splitlines()[-1] == (
        f"orch: gpu01: run {RUN} lives already under the name jupyter. "
        f"See it: orch tail {RUN}; end it: orch stop {RUN}"
    )


def test_without_jupyter_and_a_terminal_it_says_how(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Lab(monkeypatch, "False False")(project)
    assert (said.status, scripts(said)) == (2, ["environment", "jupyter"])
    assert said.err == (
        "orch: gpu01: no Jupyter in the venv there. "
        "To install it into the home there, which outlives deploys: --install\n"
    )


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_asks(project: Path, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked: list[str] = []
    monkeypatch.setattr(App, "interactive", staticmethod(lambda: True))
    monkeypatch.setattr(click, "confirm", lambda question, **_: asked.append(question) or answer)
    said = Lab(monkeypatch, "False False")(project)
    assert asked == ["gpu01: no Jupyter in the venv there. Install it into the home there?"]
    assert ("install-jupyter" in scripts(said)) is answer
    assert said.status == (0 if answer else 1)


def test_pip_s_last_words_are_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, "False False")
    lab.installs = Result(1, b"pip 20\nERROR: No matching distribution found for jupyterlab\n", b"")
    said = lab(project, "--install")
    assert said.status == 1
    assert "  | pip 20\n" in said.err
    last = (
        "orch: gpu01: Jupyter could not be installed: ERROR: No matching distribution found for jupyterlab\n"
    )
    assert said.err.endswith(last)


def test_a_venv_has_no_place_for_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Lab(monkeypatch, "False True")(project, "--install")
    assert said.status == 2
    assert said.err.endswith("Add jupyterlab to `requirements` in hosts.ini, then: orch deploy\n")
