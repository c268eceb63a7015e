"""How far a training is, from progress.jsonl or from logs as Keras, tqdm and people write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.logs.progress import how_far, progress, span

TOLD = {
    "epoch": 9,
    "epochs": 100,
    "loss": 0.21345,
    "accuracy": 0.931,
    "val_loss": 0.3,
    "examples_per_second": 2104.3,
    "eta_seconds": 7400,
    "time": 1000.0,
}


def test_what_the_trainer_says_of_itself() -> None:
    assert progress(json.dumps(TOLD), "Epoch 1/2\n", now=1020.0) == (
        "epoch 9/100  9 %  loss 0.213  accuracy 0.931  2.1k ex/s  ETA 2 h 3 min"
    )
    assert (
        progress(json.dumps({**TOLD, "loss": None}), "", now=9e9)
        == "epoch 9/100  9 %  accuracy 0.931  2.1k ex/s"
    )
    assert progress('{"step": 1200, "loss": 1e-05}', "", now=0) == "step 1200  loss 1e-05"


def test_how_much_is_done_goes_by_steps_where_they_are_told() -> None:
    assert progress('{"epoch": 1, "epochs": 4, "step": 30, "steps": 80}', "", now=0) == "epoch 1/4  38 %"
    assert progress('{"step": 30, "total": 40, "metrics": {"loss": 2}}', "", now=0) == "step 30  75 %  loss 2"
    for odd in ('{"step": 9, "steps": 0}', '{"step": 9, "steps": 8}', '{"step": 9, "total": NaN}'):
        assert "%" not in progress(odd, "", now=0)


@pytest.mark.parametrize(
    "said", ["", "{", "[1]", "3", "null", "{}", '{"epoch": [1]}', '{"epoch": true}', "\0"]
)
def test_what_makes_no_sense_is_passed_over(said: str) -> None:
    assert progress(said, "last line\n", now=0) == "last line"


KERAS2 = (
    "Epoch 3/10\n 1/45 [....] - ETA: 9s - loss: 0.9\n12/45 [==>...] - ETA: 3s - loss: 0.2134 - accuracy: 0.93"
)
CASES = {
    KERAS2: "epoch 3/10  step 12/45  loss 0.213  accuracy 0.93",
    "Epoch 3/10\n45/45 - 3s - loss: 0.21 - val_loss: 0.5 - 3s/epoch - 70ms/step\n": (
        "epoch 3/10  step 45/45  loss 0.21"
    ),
    "Epoch 3/10\n\x1b[1m12/45\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━\x1b[0m"
    " \x1b[1m0s\x1b[0m 5ms/step - accuracy: 0.9 - loss: 0.3": (
        "epoch 3/10  step 12/45  loss 0.3  accuracy 0.9"
    ),
    "Epoch 3/10\n1/45 [....] - ETA: 9s - loss: 0.9" + "\b" * 30 + "\r2/45 [>...] - ETA: 9s - loss: nan": (
        "epoch 3/10  step 2/45  loss nan"
    ),
    "Epoch 3/10\n   12/Unknown - 3s 5ms/step - loss: 0.5": "epoch 3/10  step 12  loss 0.5",
    "Epoch 1/10\n2022-11-30 12:00:00.1: I tensorflow/Loaded cuDNN 8100\n": "epoch 1/10",
    "12/45 [==>...] - ETA: 3s - sparse_categorical_accuracy: 0.5 - loss: 1.5e-3": (
        "step 12/45  loss 0.0015  sparse_categorical_accuracy 0.5"
    ),
    "Epoch 2/10\n45/45 - 3s - loss: 0.3\nEpoch 3/10\n": "epoch 3/10  loss 0.3",
    "epoch 3/10 loss=0.25 acc=0.9 lr=1e-3": "epoch 3/10  loss 0.25  acc 0.9",
    "\r  0%|   | 0/9 [00:00<?, ?it/s]": "0 %  0/9",
    "\rTrain:  55%|#####    | 5/9 [00:05<1:02:04,  1.01it/s, loss=0.3]": (
        "Train  55 %  5/9  loss 0.3  ETA 1 h 2 min"
    ),
    "nohup: ignoring input\n": "",
    "100%|██████████| 9/9 [00:09<00:00,  1.00it/s]\n": "100 %  9/9",
    "nohup: ignoring input\nLoading 3/4 of the data\n\n": "Loading 3/4 of the data",
    "x" * 200: "x" * 77 + "...",
    "": "",
    "\n \n": "",
    "loss: inf and 5/7 done": "loss: inf and 5/7 done",
}


@pytest.mark.parametrize("tail", CASES)
def test_what_is_read_off_the_log(tail: str) -> None:
    assert progress("", tail, now=0) == CASES[tail]


OF_TENSORFLOW = (
    "2026-12-01 02:59:41.812417: I tensorflow/core/util/util.cc:169] oneDNN custom operations are on.\n",
    "To enable them in other operations, rebuild TensorFlow with the appropriate compiler flags.\n",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    "I0000 00:00:1796093805.591047   14340 port.cc:153] oneDNN custom operations are on.\n",
)


@pytest.mark.parametrize("line", OF_TENSORFLOW)
def test_what_tensorflow_says_of_itself_is_no_progress(line: str) -> None:
    assert progress("", line, now=0) == ""
    assert progress("", f"loading\n{line}", now=0) == "loading"


def test_an_error_of_tensorflow_is_shown() -> None:
    line = "2026-12-01 02:59:41.812417: E tensorflow/stream_executor/cuda.cc:271] failed call to cuInit"
    assert progress("", line, now=0) == f"{line[:77]}..."


def test_the_last_line_does_not_tell_how_far_it_is() -> None:
    assert how_far("", "Epoch 1/9\n", now=0) == "epoch 1/9"
    assert how_far("", "python3: can't open file 'trian.py'\n", now=0) == ""


@given(said=st.text(max_size=30), tail=st.text(max_size=200))
def test_no_log_is_too_odd(said: str, tail: str) -> None:
    shown = progress(said, tail, now=0)
    assert "\n" not in shown
    assert "\x1b" not in shown


def test_spans() -> None:
    shown = [span(s) for s in (-3, 12, 59.6, 3599, 7390, 3 * 86400 + 4 * 3600)]
    assert shown == ["0 s", "12 s", "1 min", "1 h 0 min", "2 h 3 min", "3 d 4 h"]


def test_a_traceback_right_behind_a_bar_cuts_no_number() -> None:
    bar = " 1/40 [....] - ETA: 21s - loss: 0.7280 - accuracy: 0.4800Traceback (most recent call last):\n"
    assert progress("", "Epoch 1/40\n" + bar, now=0) == "epoch 1/40  step 1/40  loss 0.728  accuracy 0.48"
