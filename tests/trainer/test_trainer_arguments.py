"""The trainer's flags, answered without TensorFlow and without NumPy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from orchestrator.trainer import arguments

from tests.trainer.conftest import Trainer


@pytest.fixture
def bare(tmp_path: Path) -> Trainer:
    """A python that has no packages at all."""
    return Trainer(Path(sys.executable), tmp_path)


def test_the_defaults_and_every_flag() -> None:
    plain = arguments.parse([])
    assert (plain.data, plain.epochs >= 1, plain.batch_size >= 1) == ("digits", True, True)
    words = [
        "--epochs",
        "3",
        "--batch_size=8",
        "--data",
        "synthetic",
        "--learning_rate",
        "1e-2",
        "--seed",
        "7",
    ]
    given = arguments.parse(words)
    expected = {"epochs": 3, "batch_size": 8, "data": "synthetic", "learning_rate": 0.01, "seed": 7}
    assert vars(given) == {**vars(plain), **expected}
    more = arguments.parse(["--shape=9x7x3", "--model=my.nets:build", "--warmup_epochs=0", "--xla"])
    assert (more.shape, more.model, more.warmup_epochs, more.xla) == ((9, 7, 3), "my.nets:build", 0, True)
    assert arguments.parse(["--shape", "32x16"]).shape == (32, 16, 1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--epochs", "0"], "argument --epochs: must be 1 or more, not 0"),
        (["--epochs", "-3"], "argument --epochs: must be 1 or more, not -3"),
        (["--epochs", "ten"], "argument --epochs: must be a whole number, not 'ten'"),
        (["--epochs", "1.5"], "argument --epochs: must be a whole number, not '1.5'"),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--batch_size", "0"], "argument --batch_size: must be 1 or more, not 0"),
        (["--learning_rate", "0"], "argument --learning_rate: must be a number above 0, not '0'"),
        (["--learning_rate", "nan"], "argument --learning_rate: must be a number above 0, not 'nan'"),
        (["--learning_rate", "inf"], "argument --learning_rate: must be a number above 0, not 'inf'"),
        (["--learning_rate", "fast"], "argument --learning_rate: must be a number above 0, not 'fast'"),
        (["--seed", "-1"], "argument --seed: must be from 0 to 4294967295, not -1"),
        (["--seed", "4294967296"], "argument --seed: must be from 0 to 4294967295, not 4294967296"),
        (["--warmup_epochs", "-1"], "argument --warmup_epochs: must be a number from 0, not '-1'"),
        (["--shape", "28"], "argument --shape: must be HxW or HxWxC, as 224x224x3, not '28'"),
        (["--shape", "0x8x3"], "argument --shape: must be HxW or HxWxC, as 224x224x3, not '0x8x3'"),
        (["--model", "rnn"], "argument --model: must be cnn, transformer or MODULE:FUNCTION, not 'rnn'"),
        (
            ["--model", "my net:f"],
            "argument --model: must be cnn, transformer or MODULE:FUNCTION, not 'my net:f'",
        ),
        (["--model", "net:"], "argument --model: must be cnn, transformer or MODULE:FUNCTION, not 'net:'"),
        (["--gpus", "2"], "unrecognized arguments: --gpus 2"),
    ],
)
def test_a_wrong_flag_is_one_line(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        arguments.parse(words)
    assert end.value.code == 2
    assert capsys.readouterr() == ("", f"trainer: {reason} (--help shows all flags)\n")


def test_help_needs_no_tensorflow(bare: Trainer) -> None:
    done = bare.python_runs("-S", "-m", "trainer", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for flag in vars(arguments.parse([])):
        assert f"--{flag}" in done.stdout
    assert "progress.jsonl" in done.stdout


def test_a_wrong_flag_needs_no_tensorflow(bare: Trainer) -> None:
    done = bare.python_runs("-S", "-m", "trainer", "--epochs", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trainer: argument --epochs: must be 1 or more")


def test_without_tensorflow_it_says_what_to_install(bare: Trainer) -> None:
    done = bare.python_runs("-S", "-m", "trainer")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"trainer: numpy is not installed for {sys.executable} (pip install tensorflow)\n"
