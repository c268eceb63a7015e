"""orch tensorboard on machines that only pretend: which service, where, and what is said of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import forwarding
from orchestrator.errors import HostError
from orchestrator.hosts import forward
from orchestrator.hosts.base import Result, Tunnel
from orchestrator.hosts.fake import FakeMachine
from orchestrator.run.spec import RunSpec
from tests.cli.calling import Called, call
from tests.cli.some_runs import HEAD, NOW, OLD, RUN, RUNNING, block, project

__all__ = ["project"]  # a fixture

BOARD = "20261130-0215-tensorboard-aaaa"
ENVIRONMENT = {
    "engine": "venv", "user": "ana", "uid": 1, "gid": 1, "home": "/h", "dir": "/d", "place": "/p",
    "machine": "",
    "workspace": "/w", "env": "e", "python": "3", "person": "ana", "project": "mnist", "folder": "f",
    "spec": "s",
}  # fmt: skip
ENDED = {"state": "stopped", "ended": NOW, "exit_code": 0, "cause": {"kind": "stopped", "by": "bob"}}


def board(*shown: str, answers: bool = True, **state: Any) -> str:
    """The record of a TensorBoard."""
    argv = ("python3", "serve.py", "tensorboard", *(w for pair in shown for w in ("--show", pair)))
    spec = RunSpec(BOARD, argv, ("gpu01",), "ana", "mnist", "9f3c", name="tensorboard", kind="tensorboard")
    lines = block(BOARD, {**RUNNING, **state}, lock="free" if state else "held").split("\n")
    lines[1] = f"spec {replace(spec, asked=5.0).text()}"
    lines[3] = f"worker {json.dumps({'environment': ENVIRONMENT})}"
    if answers:
        lines.insert(4, "service " + json.dumps({"port": 7001, "used": NOW - 200, "idle": 0}))
    return "\n".join(lines)


def trained(run: str, name: str = "nightly", host: str = "gpu01", **spec: str) -> str:
    found = block(run, {**RUNNING, **ENDED}, lock="free", host=host).replace('"nightly"', f'"{name}"')
    for key, value in spec.items():
        found = found.replace(f'"{key}": "', f'"{key}": "{value}')
    return found


class Lab:
    """gpu01 with records; a service ends as soon as somebody has been led to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *records: str, new: str = "") -> None:
        self.records, self.new = list(records), new
        self.ended, self.run = "", BOARD
        monkeypatch.setattr(forwarding, "LOOK", 0.0)
        monkeypatch.setattr(time, "sleep", lambda _: None)
        monkeypatch.setattr(forward, "ready", lambda *_, **__: set())

    def prepare(self, machine: FakeMachine) -> None:
        def launched(asked: Any) -> Any:
            self.run = re.findall(r"[0-9-]{14}tensorboard-[0-9a-f]{4}", asked.text)[-1]
            self.records.append(self.new.replace(BOARD, self.run))
            lines = ["answer launched", "place /p", f"state {json.dumps(RUNNING)}", "gpus ", "log "]
            return Result(0, "\n".join(lines).encode(), b"")

        real = machine.run

        def run(script: Any, **more: Any) -> Any:
            machine._answers.clear()
            machine.answer("launch", launched)
            found = self.ended if self.ended else "\n".join([HEAD, *self.records])
            machine.answer_facts(runs=found if machine.host.name == "gpu01" else HEAD)
            return real(script, **more)

        machine.run = run  # type: ignore[method-assign]

    def __call__(self, project: Path, *words: str, then: Callable[[], None] = lambda: None) -> Called:
        def url_printed(*_: object, **__: object) -> set[int]:
            then()
            self.ended = "\n".join([HEAD, board(**ENDED).replace(BOARD, self.run)])
            return set()

        forward.ready = url_printed  # type: ignore[assignment]
        return call(project, "tensorboard", *words, prepare=self.prepare)


def scripts(said: Called) -> list[str]:
    return [script.name for script in said.machines["gpu01"].ran]


def test_it_starts_over_the_runs_and_leads_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, trained(RUN), trained(OLD, "other"), new=board())
    said = lab(project, "nightly", "other", "--idle", "12h")
    assert said.out.startswith("http://127.0.0.1:")
    (launch,) = (s.text for s in said.machines["gpu01"].ran if s.name == "launch")
    shown = f"--show nightly={RUN}/gpu01 --show other={OLD}/gpu01"
    assert f"-- python3 serve.py tensorboard --idle=43200 {shown}" in launch
    assert '"kind": "tensorboard", "idle": 43200' in launch
    assert "runs/latest" not in launch
    assert "orch stop 2" in said.err
    assert said.err.endswith("TensorBoard has ended: stopped: by bob\n")
    assert said.status == 0


def test_the_living_one_is_found_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    living = board(f"nightly={RUN}/gpu01", f"other={OLD}/gpu01")
    lab = Lab(monkeypatch, trained(RUN), trained(OLD, "other"), living)
    said = lab(project, "other", "nightly", "--idle", "1h")
    assert "launch" not in scripts(said)
    assert f"run     {BOARD} on gpu01, which lives already\n" in said.err
    assert "note: for want of use it ends never, as it was started\n" in said.err
    assert lab.ended


def test_one_over_other_runs_is_another(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, trained(RUN), trained(OLD, "other"), board(f"nightly={RUN}/gpu01"), new=board())
    assert "launch" in scripts(lab(project, "nightly", "other"))


def test_two_runs_of_one_name_go_by_id(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, trained(RUN), trained(OLD), new=board())
    said = lab(project, RUN, OLD)
    (launch,) = (s.text for s in said.machines["gpu01"].ran if s.name == "launch")
    assert f"--show {OLD}={OLD}/gpu01 --show {RUN}={RUN}/gpu01" in launch


def test_without_a_run_it_is_the_latest_which_is_no_service(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch, trained(RUN), board(f"nightly={RUN}/gpu01"))
    assert f"run     {BOARD} on gpu01, which lives already\n" in lab(project).err


@pytest.mark.parametrize(
    ("records", "words", "complaint"),
    [
        ([trained(RUN), board()], BOARD, f"run {BOARD} is a service, and no training"),
        ([trained(RUN, person="bob-")], RUN, f"run {RUN} is bob-ana's, and not in a container of yours"),
        (
            [trained(RUN), trained(OLD, project="x-")],
            f"{RUN} {OLD}",
            f"{OLD} is of project x-mnist, {RUN} of mnist",
        ),
    ],
)
def test_what_cannot_be_seen_there_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, records: list[str], words: str, complaint: str
) -> None:
    said = Lab(monkeypatch, *records)(project, *words.split())
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(f"orch: {complaint}")


def test_one_that_ends_at_once_says_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"state": "failed", "ended": NOW, "exit_code": 1, "cause": {"kind": "exit", "code": 1}}
    ended = board(answers=False, **failed).replace("tail ", "tail orch: no TensorBoard in this environment")
    said = Lab(monkeypatch, trained(RUN), new=ended)(project, RUN)
    assert said.status == 1
    assert "  | orch: no TensorBoard in this environment\n" in said.err
    assert "orch: gpu01: TensorBoard has ended: failed, exit 1. What is known of it: orch why 2" in said.err


def test_nothing_is_started_where_nothing_is_let_through(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbids(_self: FakeMachine, port: int, address: str = "") -> Tunnel:
        raise HostError(forward.FORBIDDEN, where="gpu01")

    monkeypatch.setattr(FakeMachine, "tunnel", forbids)
    said = Lab(monkeypatch, trained(RUN))(project, RUN)
    assert (said.status, "launch" in scripts(said)) == (1, False)
    assert (
        "gpu01: its sshd forbids forwarding (AllowTcpForwarding), so a TensorBoard there can't be re"
        in said.err
    )


def test_ctrl_c_ends_the_way_and_not_the_service(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    said = Lab(monkeypatch, trained(RUN), board(f"nightly={RUN}/gpu01"))(project, RUN, then=interrupt)
    assert said.status == 130
    assert said.err.endswith(f"\nTensorBoard goes on:   orch tensorboard      orch stop {BOARD}\n")
    assert "stop" not in scripts(said)


def test_ctrl_c_while_it_starts_says_that_it_goes_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, trained(RUN), new=board(answers=False))
    monkeypatch.setattr(time, "sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    said = lab(project, RUN)
    assert said.status == 130
    assert said.err.endswith(
        f"run {lab.run} goes on. Its URL: orch tensorboard, as before; to end it: orch stop {lab.run}\n"
    )


def test_ps_tells_when_it_was_used_and_tail_rerun_and_resume_take_no_service_for_a_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch, trained(RUN), board())
    rows = call(project, "ps", prepare=lab.prepare).out
    assert "last used 3 min ago" in rows
    assert "3 GPU" not in rows
    for verb in ("rerun", "resume"):
        said = call(project, verb, BOARD, prepare=lab.prepare)
        assert said.status == 2
        assert said.err == f"orch: run {BOARD} is a service, and no training. To have one: orch tensorboard\n"
    latest = call(project, "tail", "--progress", "--no-follow", prepare=lab.prepare)
    assert latest.out == "stopped; by bob\n"
