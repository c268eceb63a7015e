"""How far the training is: a line for people, and a line of JSON for programs. Knows no TensorFlow."""

from __future__ import annotations

import json
import math
import os
from typing import Dict, Mapping, NamedTuple, Optional, Tuple, Union

Record = Dict[str, Union[int, float, None]]

APART = (
    "epoch",
    "epochs",
    "step",
    "steps",
    "examples_per_second",
    "eta_seconds",
    "learning_rate",
    "time",
)
"""What a record holds beside the loss and the metrics."""

WRITTEN = 1.0
"""Seconds between two lines of progress.jsonl within an epoch."""
SHORTEST = 0.05
"""Seconds between two lines at least, even where epochs are shorter; the last one is always told."""
FREE = 200
"""Epochs that are told however short they are."""
SAID = 10.0
"""Seconds between two lines of the log within an epoch."""


def path(environ: Mapping[str, str] = os.environ) -> str:
    """The file that ORCH_PROGRESS names, else progress.jsonl in the working directory."""
    return environ.get("ORCH_PROGRESS") or "progress.jsonl"


class Plan(NamedTuple):
    """What the training sets out to do: so many epochs of so many steps over so many examples."""

    epochs: int
    steps: int
    examples: int
    batch: int = 1
    """Examples of a step; the last one of an epoch may have fewer."""

    def seen(self, step: int) -> int:
        """Examples after so many steps of an epoch."""
        return min(self.examples, step * self.batch)


class Speed(NamedTuple):
    """Examples a second in the training steps of this epoch, and seconds until the end."""

    rate: float
    left: Optional[float]
    """None as long as nobody knows."""


def record(
    plan: Plan,
    epoch: int,
    step: int,
    logs: Mapping[str, float],
    speed: Speed,
    *,
    learning_rate: float,
    now: float,
) -> Record:
    """What there is to say after `step` steps of `epoch` (from 1); `now` is in seconds since 1970."""
    return {
        "epoch": epoch,
        "epochs": plan.epochs,
        "step": (epoch - 1) * plan.steps + step,
        "steps": plan.epochs * plan.steps,
        **{name: finite(logs[name]) for name in sorted(logs, key=order)},
        "examples_per_second": round(speed.rate, 1),
        "eta_seconds": None if speed.left is None else round(speed.left, 1),
        "learning_rate": float(f"{learning_rate:.7g}"),  # of 32 bits
        "time": round(now, 3),
    }


def order(name: str) -> Tuple[bool, bool, str]:
    """The loss before the metrics, those of the training before those of the validation."""
    return name.startswith("val_"), not name.endswith("loss"), name


def finite(value: Optional[float]) -> Optional[float]:
    """JSON knows neither nan nor inf: they become null."""
    return float(value) if value is not None and math.isfinite(value) else None


def line(record: Record) -> str:
    """The same for people."""
    epochs, steps = record["epochs"] or 1, record["steps"] or 0
    words = [f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}"]
    in_epoch = (record["step"] or 0) - ((record["epoch"] or 1) - 1) * steps // epochs
    if in_epoch * epochs != steps:
        words.append(f"step {in_epoch:.0f}/{steps // epochs}")
    for name, value in record.items():
        if name not in APART:
            words.append(f"{name} {'nan' if value is None else format(value, '.4f')}")
    words.append(f"{amount(record['examples_per_second'] or 0)} ex/s")
    if record["step"] != record["steps"] and record["eta_seconds"] is not None:
        words.append(f"ETA {duration(record['eta_seconds'])}")
    return "  ".join(words)


def amount(number: float) -> str:
    """At most four characters: 87, 2.1k, 310k, 1.2M."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.0f}G"


def duration(seconds: float) -> str:
    """12 s, 3 min, 2 h 3 min."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Journal:
    """progress.jsonl, each line there at once. A training that is taken up goes on in it."""

    def __init__(self, name: str, goes_on: bool = False) -> None:
        self._file = open(name, "a" if goes_on else "w", encoding="utf-8")  # noqa: SIM115

    def write(self, record: Record) -> None:
        """Add one line."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()
