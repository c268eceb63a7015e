"""What the words of orch train say, and which host they mean, on machines that only pretend."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.some_runs import launched, project, train

__all__ = ["project"]  # a fixture


def test_dry_run_prints_the_line_and_reaches_nothing(project: Path) -> None:
    said = train(project, "--dry-run", prepare=launched())
    assert said.status == 0
    assert said.machines == {}
    assert said.out.startswith(
        'nohup setsid flock -w 10 "$ORCH_WORKER_DIR/lock" python3 "$ORCH_WORKER_DIR/supervise.py"'
    )
    assert said.out.endswith(
        '-- python3 train.py --epochs=100 >> "$ORCH_WORKER_DIR/training.log" 2>&1 < /dev/null\n'
    )


def test_a_file_that_is_not_sent_is_warned_about(project: Path) -> None:
    said = call(
        project,
        "train",
        "-d",
        "--hosts",
        "gpu01",
        "--",
        "python3",
        "train.py",
        "--data=data.bin",
        prepare=launched(),
    )
    assert "warning: data.bin is here but is not sent" in said.err


def test_the_first_candidate_with_room_is_taken(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        if machine.host.name == "gpu01":
            machine.answer("launch", out="answer busy\n")
        else:
            launched()(machine)

    said = train(project, "-d", "--nodes", "1", prepare=prepare, host="all")
    assert said.status == 0
    assert "on gpu02" in said.out
    assert said.err.startswith("gpu01: no free GPU for the run, so the next one\n")
    busy = train(
        project, "-d", "--nodes", "1", prepare=lambda m: m.answer("launch", out="answer busy\n"), host="all"
    )
    assert busy.status == 75


def test_which_host_is_asked_when_there_are_several(project: Path) -> None:
    said = call(project, "train", "-d", "--", "true")
    assert (said.status, said.err) == (2, "orch: which hosts? There are 2. Name them: --hosts gpu01,gpu02\n")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (
            ("gpu01", "--", "python3", "train.py"),
            "orch: gpu01 is a host, not a command. orch train --hosts gpu01 -- python3",
        ),
        (
            ("--hosts", "gpu01", "--", "train.py", "--x"),
            "train.py is no program. orch train -- python3 train.py --x",
        ),
        (
            ("--hosts", "gpu01", "--epochs=3"),
            "What belongs to your command stands after --",
        ),
        (("--host", "gpu01", "--", "true"), "no option --host. Did you mean --hosts?"),
    ],
)
def test_a_word_that_is_a_slip_makes_no_run(project: Path, words: tuple[str, ...], what: str) -> None:
    said = call(project, "train", "-d", *words, prepare=launched())
    assert (said.status, said.machines) == (2, {})
    assert what in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--name", "a b"), "not one word"),
        (("--gpus", "many"), "a count, all or none"),
        (("--note", "two\nlines"), "not one line of at most 500 characters"),
        (("--tag", "two words"), "not one word"),
        (("--env", "1=2"), "not a variable's name"),
        (("--env", "NOT_SET_HERE"), "not set here"),
        (("--max-size", "lots"), "not a size"),
        (("-d", "--wait"), "exclude each other"),
    ],
)
def test_words_that_make_no_sense(project: Path, words: tuple[str, ...], what: str) -> None:
    said = train(project, *words, prepare=launched())
    assert (said.status, said.machines) == (2, {})
    assert what in said.err
