"""Real trainings: what they say, what they leave, and how they end."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pexpect

from tests.trainer import scripts
from tests.trainer.conftest import LIMIT, Trainer, own_words

IN_THE_WAY = {
    "logs": "logs: File exists",
    "checkpoints": "cannot write checkpoints/: checkpoints is not a directory",
    "saved_model": "cannot write saved_model/: saved_model is not a directory",
}


def lines(file: Path) -> list[dict[str, float | None]]:
    """What was told at the end of each epoch; a slow epoch has more lines."""
    told = [json.loads(line) for line in file.read_text().splitlines()]
    return [record for record in told if "val_loss" in record]


def accuracy(done: CompletedProcess[str]) -> str:
    """The last line's number, as it stands there."""
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"test accuracy [01]\.\d{4}", last), done.stdout + done.stderr
    return last.split()[-1]


def of_epochs(trainer: Trainer) -> list[dict[str, float | None]]:
    """The lines of progress.jsonl that end an epoch; a slow machine has more of them within one."""
    return [line for line in lines(trainer.cwd / "progress.jsonl") if "val_loss" in line]


def test_the_digits_are_learnt_and_all_is_written(trainer: Trainer) -> None:
    done = trainer.trains()
    assert done.returncode == 0, done.stderr
    reached = accuracy(done)
    assert float(reached) >= 0.95
    assert own_words(done.stderr) == []
    assert "Traceback" not in done.stderr
    assert "\r" not in done.stdout
    assert "\x1b" not in done.stdout

    epochs = [line for line in done.stdout.splitlines() if line.startswith("epoch ")]
    progress = of_epochs(trainer)
    assert len(epochs) == len(progress) == 12
    assert [line["step"] for line in progress] == [41 * epoch for epoch in range(1, 13)]
    assert {line["steps"] for line in progress} == {492}
    assert progress[-1]["eta_seconds"] == 0
    assert progress[-1]["val_accuracy"] > 0.95
    assert progress[-1]["loss"] < progress[0]["loss"]
    assert min(line["examples_per_second"] for line in progress) > 1
    assert [line["time"] for line in progress] == sorted(line["time"] for line in progress)

    saved = trainer.python_runs(trainer.writes("saved.py", scripts.SAVED_MODEL_ACCURACY))
    assert saved.stdout.split() == [reached], saved.stderr
    resumed = trainer.python_runs(trainer.writes("checkpoint.py", scripts.CHECKPOINT))
    assert resumed.stdout.split() == ["492", "12", reached], resumed.stderr
    scalars = trainer.python_runs(trainer.writes("scalars.py", scripts.SCALARS))
    assert scalars.stdout.splitlines() == ["train 12 11 True", "validation 12 11 True"], scalars.stderr


def test_the_same_seed_gives_the_same_training(trainer: Trainer) -> None:
    losses = []
    for seed in ("1", "1", "2"):
        assert trainer.trains("--epochs", "1", "--fresh", "--seed", seed).returncode == 0
        losses.append(round(of_epochs(trainer)[0]["loss"], 4))
    assert losses[0] == losses[1] != losses[2]


def test_sigterm_finishes_the_step_and_saves(trainer: Trainer) -> None:
    with trainer.start("-m", "trainer", "--epochs", "100000") as process:
        for line in process.stdout:
            if line.startswith("epoch      2/"):
                break
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 143
    assert "test accuracy" not in out
    (words,) = own_words(err)
    step = int(re.fullmatch(r"trainer: stopped by SIGTERM; checkpoint of step (\d+) saved", words)[1])
    assert "Traceback" not in err
    resumed = trainer.python_runs(trainer.writes("checkpoint.py", scripts.CHECKPOINT)).stdout.split()
    done = len(of_epochs(trainer))
    assert resumed[:2] == [str(step), str(done)]
    assert done * 41 <= step <= (done + 1) * 41
    assert float(resumed[2]) > 0.5
    scalars = trainer.python_runs(trainer.writes("scalars.py", scripts.SCALARS))
    assert scalars.stdout.splitlines()[0] == f"train {done} {done - 1} True"


def test_several_replicas_see_each_example_once(trainer: Trainer) -> None:
    """1,294 = 3 x 431 + 1: the last batch has one example for three replicas."""
    script = trainer.writes("replicas.py", scripts.REPLICAS)
    done = trainer.python_runs(script, "--batch_size=431", "--epochs=2", "--learning_rate=0.003")
    assert done.returncode == 0, done.stderr
    assert "; 2 epochs of 2 steps" in done.stdout
    assert "batch 1293 (431 x 3), learning rate 0.009" in done.stdout
    assert [round(line["learning_rate"], 6) for line in of_epochs(trainer)] == [0.009] * 2
    assert "Traceback" not in done.stderr
    saved = trainer.python_runs(trainer.writes("saved.py", scripts.SAVED_MODEL_ACCURACY))
    assert saved.stdout.split() == [accuracy(done)], saved.stderr


def test_a_loss_that_explodes_is_one_line(trainer: Trainer) -> None:
    done = trainer.trains("--epochs", "3", "--learning_rate", "1e30")
    assert done.returncode == 1
    assert own_words(done.stderr) == [
        "trainer: the loss is not a number after epoch 1; try a smaller --learning_rate"
    ]
    assert "Traceback" not in done.stderr
    (line,) = lines(trainer.cwd / "progress.jsonl")
    assert line["loss"] is None
    assert not (trainer.cwd / "saved_model").exists()
    assert not list(trainer.cwd.glob("checkpoints/ckpt*"))


def test_an_own_file_of_colour_images(trainer: Trainer) -> None:
    assert trainer.python_runs(trainer.writes("maker.py", scripts.COLOUR_IMAGES)).returncode == 0
    where = trainer.cwd / "elsewhere.jsonl"
    done = trainer.trains("--data=own.npz", "--epochs=2", "--batch_size=7", ORCH_PROGRESS=str(where))
    assert done.returncode == 0, done.stderr
    assert "own.npz: 54 train, 6 validation, 5 test; 9x7x3, 4 classes" in done.stdout
    assert [line["step"] for line in lines(where)] == [8, 16]
    assert not (trainer.cwd / "progress.jsonl").exists()


def test_what_cannot_be_written_is_one_line(newest: Trainer) -> None:
    done = newest.trains("--epochs", "1", ORCH_PROGRESS="/nonexistent/progress.jsonl")
    assert (done.returncode, own_words(done.stderr)) == (
        1,
        ["trainer: /nonexistent/progress.jsonl: No such file or directory"],
    )
    for name, reason in IN_THE_WAY.items():
        shutil.rmtree(newest.cwd / name, ignore_errors=True)
        (newest.cwd / name).write_text("a file in the way")
        done = newest.trains("--epochs", "1")
        assert (done.returncode, own_words(done.stderr)) == (1, [f"trainer: {reason}"])
        assert "Traceback" not in done.stderr
        (newest.cwd / name).unlink()


def test_without_tensorboard_it_trains_all_the_same(newest: Trainer) -> None:
    (newest.cwd / "stub" / "tensorboard").mkdir(parents=True)
    (newest.cwd / "stub" / "tensorboard" / "__init__.py").write_text("raise ModuleNotFoundError('stub')")
    done = newest.trains("--epochs", "1", path=str(newest.cwd / "stub"))
    assert done.returncode == 0, done.stderr
    assert own_words(done.stderr) == [
        "trainer: no ./logs, as TensorBoard is not installed (pip install tensorboard)"
    ]
    assert not (newest.cwd / "logs").exists()


def test_a_gpu_that_was_given_but_cannot_be_seen_is_said(newest: Trainer) -> None:
    done = newest.trains("--epochs", "1", CUDA_VISIBLE_DEVICES="GPU-0")
    assert own_words(done.stderr)[:1] == [
        "trainer: training on the CPU: CUDA_VISIBLE_DEVICES is GPU-0, but this TensorFlow sees no GPU"
    ]


def test_on_a_terminal_keras_draws_its_bar(newest: Trainer) -> None:
    terminal = pexpect.spawn(
        str(newest.python),
        ["-m", "trainer", "--epochs", "1"],
        cwd=newest.cwd,
        env=newest.environ(TERM="xterm"),
        timeout=LIMIT,
        encoding="utf-8",
    )
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert "41/41" in terminal.before
    assert "ex/s" not in terminal.before
    assert terminal.before.splitlines()[-1].startswith("test accuracy ")
