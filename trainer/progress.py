"""How far the training is: a line for people, and a line of JSON for programs. Knows no TensorFlow."""

from __future__ import annotations

import json
import math
import os
from typing import Dict, Mapping, NamedTuple, Optional, Union

Record = Dict[str, Union[int, float, None]]


def path(environ: Mapping[str, str] = os.environ) -> str:
    """The file that ORCH_PROGRESS names, else progress.jsonl in the working directory."""
    return environ.get("ORCH_PROGRESS") or "progress.jsonl"


class Plan(NamedTuple):
    """What the training sets out to do: so many epochs of so many steps over so many examples."""

    epochs: int
    steps: int
    examples: int


class Times(NamedTuple):
    """Seconds that an epoch took: its training steps alone, and all of it with validation."""

    training: float
    whole: float


def record(
    plan: Plan, epoch: int, logs: Mapping[str, float], times: Times, *, learning_rate: float, now: float
) -> Record:
    """What there is to say after `epoch` (from 1), for progress.jsonl. `now` is in seconds since 1970."""
    metrics = {name: finite(logs.get(name)) for name in ("loss", "accuracy", "val_loss", "val_accuracy")}
    return {
        "epoch": epoch,
        "epochs": plan.epochs,
        "step": epoch * plan.steps,
        "steps": plan.epochs * plan.steps,
        **metrics,
        "examples_per_second": round(plan.examples / max(times.training, 1e-9), 1),
        "eta_seconds": round((plan.epochs - epoch) * times.whole, 1),
        "learning_rate": learning_rate,
        "time": round(now, 3),
    }


def finite(value: Optional[float]) -> Optional[float]:
    """JSON knows neither nan nor inf: they become null."""
    return float(value) if value is not None and math.isfinite(value) else None


def line(record: Record) -> str:
    """The same for people."""
    epochs = str(record["epochs"])
    words = [f"epoch {record['epoch']:>{len(epochs)}}/{epochs}"]
    for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
        value = record[name]
        words.append(f"{name} {'nan' if value is None else format(value, '.4f')}")
    words.append(f"{amount(record['examples_per_second'] or 0)} ex/s")
    if record["epoch"] != record["epochs"]:
        words.append(f"ETA {duration(record['eta_seconds'] or 0)}")
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
    """progress.jsonl. A new training starts it anew; readers see each line as soon as it is written."""

    def __init__(self, name: str) -> None:
        self._file = open(name, "w", encoding="utf-8")  # noqa: SIM115

    def write(self, record: Record) -> None:
        """Add one line."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()
