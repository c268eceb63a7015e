"""orch tail --progress: a line for each worker, until the run ends."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pexpect
import pytest

from orchestrator.cli import tail_progress
from orchestrator.errors import LostConnection, NotPermitted
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.some_runs import HEAD, NOW, RUN, RUNNING, block, project

__all__ = ["project"]  # a fixture

ENDED = {**RUNNING, "state": "succeeded", "ended": NOW, "exit_code": 0, "cause": {"kind": "exit", "code": 0}}


def worker(host: str, *, epoch: int = 0, ended: bool = False, **state: object) -> str:
    said = json.dumps({"epoch": epoch, "epochs": 4, "loss": 0.5}) if epoch else ""
    found = block(
        RUN, {**(ENDED if ended else RUNNING), **state}, lock="free" if ended else "held", host=host
    )
    found = found.replace('"hosts": ["' + host, '"hosts": ["gpu01", "gpu02')
    return "\n".join([HEAD, found.replace("progress ", f"progress {said}")])


class Course:
    """What the hosts say, look after look: the first is that which finds the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **looks: list[str | Exception]) -> None:
        self.looks, self.times = looks, 0
        monkeypatch.setattr(time, "sleep", self.goes_on)

    def goes_on(self, seconds: float) -> None:
        if seconds == tail_progress.LOOK:
            self.times += 1

    def __call__(self, machine: FakeMachine) -> None:
        looks = self.looks[machine.host.name]
        now = looks[min(self.times, len(looks) - 1)]
        if isinstance(now, Exception):
            machine.answer("runs", now)
        else:
            machine.answer_facts(runs=now)

    def prepare(self, machine: FakeMachine) -> None:
        """Have the machine ask here before each answer."""
        real = machine.run

        def run(script: object, **more: object) -> object:
            machine._answers.clear()
            self(machine)
            return real(script, **more)  # type: ignore[arg-type]

        machine.run = run  # type: ignore[assignment, method-assign]


def test_a_line_for_each_worker_until_all_have_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_progress, "EVERY", 0.0)
    course = Course(
        monkeypatch,
        gpu01=[worker("gpu01", epoch=1), worker("gpu01", epoch=2), worker("gpu01", ended=True)],
        gpu02=[worker("gpu02"), worker("gpu02"), worker("gpu02"), worker("gpu02", ended=True)],
    )
    said = call(project, "tail", "--progress", prepare=course.prepare)
    assert said.out.splitlines() == [
        "gpu01   epoch 1/4  25 %  loss 0.5",
        "gpu02   running",
        "gpu01   epoch 2/4  50 %  loss 0.5",
        "gpu01   succeeded",
        "gpu02   succeeded",
    ]
    assert said.status == 0
    assert said.err.count("succeeded after 10 min") == 1  # the run's


def test_lines_come_at_a_bounded_rate_and_the_last_one_always(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str | Exception] = [worker("gpu01", epoch=n) for n in (1, 2, 3, 4)]
    looks.append(worker("gpu01", ended=True, state="failed", exit_code=3, cause={"kind": "exit", "code": 3}))
    course = Course(monkeypatch, gpu01=looks)
    said = call(project, "tail", "--progress", "--hosts", "gpu01", prepare=course.prepare)
    assert said.out.splitlines() == ["epoch 1/4  25 %  loss 0.5", "failed; exit 3"]
    assert said.status == 3


def test_a_silent_host_is_asked_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_progress, "EVERY", 0.0)
    gone = LostConnection("the connection went", where="gpu01")
    course = Course(
        monkeypatch, gpu01=[worker("gpu01", epoch=1), gone, gone, worker("gpu01", epoch=1, ended=True)]
    )
    made: list[FakeMachine] = []

    def prepare(machine: FakeMachine) -> None:
        made.append(machine)
        course.prepare(machine)

    said = call(project, "tail", "--progress", "--hosts", "gpu01", prepare=prepare, again=True)
    assert said.out.splitlines() == [
        "epoch 1/4  25 %  loss 0.5",
        "no answer: the connection went; trying on",
        "succeeded",
    ]
    assert (said.status, len(made)) == (0, 3)


def test_a_run_that_ended_without_a_host_is_over(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = LostConnection("the connection went", where="gpu02")
    lost = {"kind": "peer", "host": "gpu02", "how": "lost"}
    course = Course(
        monkeypatch,
        gpu01=[
            worker("gpu01", epoch=1),
            worker("gpu01", epoch=1),
            worker("gpu01", ended=True, state="failed", exit_code=1, cause=lost),
        ],
        gpu02=[worker("gpu02", epoch=1), gone],
    )
    said = call(project, "tail", "--progress", prepare=course.prepare, again=True)
    assert said.out.splitlines()[-2:] == [
        "gpu01   failed; peer gpu02 lost (no word for 30 s)",
        "gpu02   no answer: the connection went; trying on",
    ]
    assert said.status == 1


def test_a_host_that_lets_us_in_no_more_ends_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(
        monkeypatch, gpu01=[worker("gpu01", epoch=1), NotPermitted("the login is refused", where="gpu01")]
    )
    said = call(project, "tail", "--progress", "--hosts", "gpu01", prepare=course.prepare)
    assert (said.status, said.err) == (77, "orch: gpu01: the login is refused\n")


def test_it_goes_on_when_it_is_left(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(monkeypatch, gpu01=[worker("gpu01", epoch=1)])
    monkeypatch.setattr(time, "sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    said = call(project, "tail", "--progress", "--hosts", "gpu01", prepare=course.prepare)
    assert said.status == 130
    assert said.err == "\nthe run goes on:   orch tail nightly --progress      orch stop nightly\n"
    once = call(project, "tail", "--progress", "--no-follow", "--hosts", "gpu01", prepare=course.prepare)
    assert (once.status, once.out, once.err) == (0, "epoch 1/4  25 %  loss 0.5\n", "")


@pytest.mark.parametrize("other", ["--raw", "-n 3", "--since 1m", "--output logs"])
def test_it_shows_no_log(project: Path, other: str) -> None:
    said = call(project, "tail", "--progress", *other.split())
    assert said.status == 2
    assert said.err == "orch: --progress shows no log: no -n, --since, --raw or --output with it\n"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # pexpect, while other tests had threads
def test_the_line_is_drawn_over_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("me ansible_connection=local\n[all:vars]\nroot=~/root\nperson=ana\n")
    folder = tmp_path / "root/ana/mnist/runs" / RUN / "me"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "worker.json").write_text("{}\n")
    spec = block(RUN, {}, host="me").split("spec ", 1)[1].split("\n")[0]
    (folder.parent / "spec.json").write_text(spec + "\n")
    now = time.time()
    alive = {"state": "running", "started": now, "heartbeat": now}
    (folder / "state.json").write_text(json.dumps(alive) + "\n")
    (folder / "progress.jsonl").write_text('{"epoch": 1, "epochs": 4}\n')
    holder = pexpect.spawn("flock", [str(folder / "lock"), "sh", "-c", "echo held; cat"])
    holder.expect("held")
    watching = pexpect.spawn(
        sys.executable,
        ["-m", "orchestrator", "tail", RUN, "--progress"],
        cwd=str(tmp_path),
        env={
            **os.environ,
            "TERM": "xterm",
            "HOME": str(tmp_path),
            "ORCH_INVENTORY": str(tmp_path / "hosts.ini"),
        },
        timeout=30,
    )
    watching.expect_exact("epoch 1/4  25 %")
    (folder / "progress.jsonl").write_text('{"epoch": 2, "epochs": 4}\n')
    watching.expect_exact("\r\x1b[2K")  # the line is taken back
    watching.expect_exact("epoch 2/4  50 %")
    ended = {**alive, "state": "succeeded", "ended": now + 5, "exit_code": 0, "seconds": 5}
    (folder / "state.json").write_text(json.dumps(ended) + "\n")
    holder.close(force=True)
    watching.expect_exact("succeeded after 5 s")
    watching.expect(pexpect.EOF)
    watching.close()
    assert watching.exitstatus == 0
