"""orch train on machines that only pretend: what is launched, sent and told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.container import since
from orchestrator.container.inputs import read_inputs
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from orchestrator.inventory import load
from orchestrator.run.code.bundle import collect
from orchestrator.run.code.kept import kept
from tests.cli.calling import call
from tests.cli.some_runs import RUN, launched, project, train

__all__ = ["project"]  # a fixture


def test_train_prints_the_run_and_what_to_do_next(project: Path) -> None:
    said = train(project, "-d", "--name", "nightly", prepare=launched())
    assert said.status == 0
    run = said.out.split()[1]
    assert said.out == f"run     {run} on gpu01, GPUs 0-2,4\n"
    assert said.err.splitlines()[0].startswith("code    2 files, ")
    assert said.err.splitlines()[-1] == "next:   orch tail nightly      orch ps      orch stop nightly"
    assert len(said.machines["gpu01"].ran) == 1


def test_train_says_which_settings_are_not_those_of_the_deploy(project: Path) -> None:
    def deployed(settings: dict[str, str]) -> Any:
        return launched(more=[f"environment {json.dumps({'settings': settings})}"])

    def noted() -> dict[str, str]:
        (host,) = (h for h in load([project / "hosts.ini"], environ={}).hosts if h.name == "gpu01")
        return since.noted(host, read_inputs(host, {}))

    same = train(project, "-d", prepare=deployed(noted()))
    assert "note:" not in same.err
    before = noted()
    with (project / "hosts.ini").open("a") as file:
        file.write("shm_size=16g\n")
    said = train(project, "-d", prepare=deployed(before))
    number = len((project / "hosts.ini").read_text().splitlines())
    note = f"note: changed since the deploy of gpu01: shm_size ({project}/hosts.ini:{number}). To have it: "
    assert f"{note}orch deploy --hosts gpu01" in said.err.splitlines()
    assert said.err.splitlines()[-1].startswith("next:")
    assert len(said.machines["gpu01"].ran) == 1
    assert "note:" not in train(project, "-d", "-q", prepare=deployed(before)).err
    with (project / "hosts.ini").open("a") as file:
        file.write("requirements=gone.txt\n")
    assert "gone.txt: No such file" in train(project, "-d", prepare=deployed(before)).err


def test_quiet_prints_nothing_but_the_id(project: Path) -> None:
    said = train(project, "-d", "-q", prepare=launched())
    assert said.err == ""
    assert said.out.count("\n") == 1
    assert " " not in said.out


def test_train_sends_code_that_is_not_there_and_launches_again(project: Path) -> None:
    tries: list[str] = []

    def prepare(machine: FakeMachine) -> None:
        launched()(machine)

        def first_not(asked: Any) -> Result:
            tries.append(asked.name)
            if len(tries) == 1:
                return Result(0, b"answer need-bundle\n", b"")
            done = FakeMachine()
            launched()(done)
            return done.run(asked)

        machine.answer("launch", first_not)
        machine.answer("bundle", out="there\n")

    said = train(project, "-d", prepare=prepare)
    assert said.status == 0, said.err
    assert len(tries) == 2
    assert "(new)" in said.err


def test_an_id_that_another_run_has_is_drawn_anew(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launched in a loop, two runs of a minute may draw the same four digits."""
    digits = iter(["7f3a", "7f3a", "02be"])
    drawing = SimpleNamespace(token_hex=lambda count: next(digits))
    monkeypatch.setattr("orchestrator.run.ids.secrets", drawing)
    there: set[str] = set()

    def prepare(machine: FakeMachine) -> None:
        def once(asked: Any) -> Result:
            (run,) = re.findall(r"^run=(\S+)$", asked.text, re.MULTILINE)
            if run[-4:] in there:
                return Result(0, b"answer exists\n", b"")
            there.add(run[-4:])
            done = FakeMachine()
            launched()(done)
            return done.run(asked)

        machine.answer("launch", once)

    ids = [train(project, "-d", "-q", prepare=prepare).out.split()[0] for _ in range(2)]
    assert [run[-4:] for run in ids] == ["7f3a", "02be"]
    words = {json.loads(line)["run"] for line in (project / "cache/orch/runs.jsonl").read_text().splitlines()}
    assert words == set(ids)


def test_a_host_on_which_every_id_is_taken_is_told(project: Path) -> None:
    said = train(project, "-d", prepare=lambda machine: machine.answer("launch", out="answer exists\n"))
    assert said.status == 75
    assert "exists already. Try again." in said.err
    assert len(said.machines["gpu01"].ran) == 8


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("no-environment", 1, "orch: gpu01: nothing is deployed here. First: orch deploy --hosts gpu01"),
        (
            "unreadable\nwhy /p/environment.sh",
            77,
            "orch: gpu01: /p/environment.sh can't be read by this account",
        ),
        (
            "not-ready\nwhy gone container orch-ana-mnist is gone",
            1,
            "orch: gpu01: the environment is not usable: container orch-ana-mnist is gone. Deploy again: ",
        ),
        (
            "not-ready\nwhy paused orch-ana-mnist",
            1,
            "orch: gpu01: container orch-ana-mnist is paused. On the host: docker unpause orch-ana-mnist",
        ),
        (
            "not-ready\nwhy engine Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
            1,
            "orch: gpu01: the Docker daemon does not run. As root there: systemctl start docker",
        ),
        ("not-ready\nwhy engine ", 1, "orch: gpu01: Docker does not answer: no answer within a minute"),
        (
            f"named\nwhy {RUN}",
            75,
            f"orch: gpu01: run {RUN} lives already under the name nightly. See it: orch tail {RUN}; ",
        ),
        ("busy", 75, "orch: gpu01: no free GPU for the run. See who holds what: orch gpu-status"),
        ("no-gpu\nwhy there is no GPU 7", 1, "orch: gpu01: no usable GPU: there is no GPU 7"),
        (
            "failed\nwhy mkdir: No space left on device",
            1,
            "orch: gpu01: the run could not be placed: mkdir: No space left on device. Make room there",
        ),
    ],
)
def test_a_launch_that_is_refused(project: Path, answer: str, status: int, words: str) -> None:
    named = ("--name", "nightly") if answer.startswith("named") else ()
    said = train(project, "-d", *named, prepare=lambda m: m.answer("launch", out=f"answer {answer}\n"))
    assert (said.status, said.out) == (status, "")
    assert said.err.startswith(words)
    assert said.err.count("\n") == 1


def test_a_launch_that_is_cut_is_not_called_a_failure_of_the_run(project: Path) -> None:
    said = train(project, "-d", prepare=lambda m: m.answer("launch", out="", err="Killed\n"))
    assert said.status == 69
    assert said.err.startswith("orch: gpu01: the launch gave no answer: Killed. Run 2")
    assert said.err.endswith(" may have been started: orch ps gpu01\n")


def test_ctrl_c_in_a_launch_names_the_run_that_may_live(project: Path) -> None:
    def interrupted(asked: Any) -> Result:
        raise KeyboardInterrupt

    said = train(project, "-d", prepare=lambda m: m.answer("launch", interrupted))
    assert (said.status, said.out) == (130, "")
    assert re.fullmatch(
        r"orch: gpu01: run \d{8}-\d{4}-run-\w{4} may have been started. See: orch ps gpu01\n", said.err
    )


def test_the_code_that_was_sent_is_kept_here(project: Path) -> None:
    said = call(project, "train", "-d", "--hosts", "gpu01", "--", "python3", "train.py", prepare=launched())
    assert said.status == 0
    cache = project / "cache" / "orch"
    sent = kept(collect(project, cache=cache).digest, cache)
    assert sent
    assert sent.holds("train.py")
