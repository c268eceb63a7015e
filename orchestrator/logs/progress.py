"""How far a training is: from what it says of itself, else read off the end of its log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.logs.view import last_lines

WIDTH = 80
"""Characters that a line of the log may take where it is all there is to show."""

_EPOCH = re.compile(r"\bepoch[ :]*(\d+) ?/ ?(\d+)", re.IGNORECASE)
# Keras 2: `12/45 [==>...] - ETA: 3s - loss: 0.21`, `45/45 - 3s - loss: 0.21`
# Keras 3: `12/45 ━━━━ 0s 5ms/step - loss: 0.21`
_STEP = re.compile(r"\s*(\d+/(?:\d+|Unknown))(?= +(?:\[|-|━|[\d.]+m?s))")
_METRIC = re.compile(
    r"(?<![\w.])([A-Za-z]\w*) ?[:=] ?(-?\d[\d.]*(?:e[-+]?\d+)?|-?inf|nan)(?:(?=Traceback \()|(?![\w./]))"
)
# `Train:  55%|#####    | 5/9 [00:05<00:04,  1.01it/s, loss=0.3]`
_TQDM = re.compile(r"(?:(?P<what>[^|]*?): +)?(\d+)%\|[^|]*\| *(\S+/\S+) \[[\d:]+<([\d:?]+)(.*)\]")
# `2026-12-01 02:14:09.561715: I tensorflow/core/util/port.cc:153] oneDNN ...`, and what goes with it
_TALK = re.compile(
    r"[-\d]{10} [:.\d]+: [IW] \S+:\d+\] |[IW]\d{4} [:.\d]+ +\d+ \S+:\d+\] "
    r"|To enable (?:them in other operations|the following instructions)"
    r"|WARNING: All log messages before absl"
)
"""What TensorFlow says of itself at its start."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0a-\x1f\x7f]")


def progress(said: str, tail: str, *, now: float) -> str:
    """Return one short text, empty where there is nothing to go by: how far it is, else the log's last line.

    `said` is the last line of progress.jsonl, `tail` the end of training.log, `now` in seconds since 1970.
    """
    own = [line for line in _lines(tail) if not _TALK.match(line)]
    return how_far(said, tail, now=now) or _cut(own[-1].strip() if own else "")


def how_far(said: str, tail: str, *, now: float) -> str:
    """Return the same without the last line: empty where neither tells of epochs or steps."""
    return _told(said, now) or _read(_lines(tail))


def _lines(tail: str) -> list[str]:
    """Return a log's last lines that say something, as they look in the end."""
    seen = last_lines(tail.encode("utf-8", "replace"), 100, beginning=True)
    return [line for line in (_ANSI.sub("", line).rstrip() for line in seen) if line.strip()]


def fields_of(said: str) -> dict[str, Any]:
    """Return the object in a line of progress.jsonl; an empty one where there is none, or no sense in it."""
    try:
        fields = json.loads(said)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _told(said: str, now: float) -> str:
    fields = fields_of(said)
    words = [_of(fields, "epoch", "epochs")] if "epoch" in fields else [_of(fields, "step", "steps")]
    words += [_share(fields)] if words[0] else []
    nested = fields.get("metrics")
    words += _metrics({**nested, **fields} if isinstance(nested, dict) else fields)
    if (rate := _number(fields.get("examples_per_second"))) is not None:
        words.append(f"{amount(rate)} ex/s")
    if (left := _number(fields.get("eta_seconds"))) is not None:
        since = max(0.0, now - (_number(fields.get("time")) or now))
        words += [f"ETA {span(left - since)}"] if left > since else []
    return "  ".join(word for word in words if word)


def _of(fields: Mapping[str, Any], name: str, total: str) -> str:
    done, whole = _number(fields.get(name)), _number(fields.get(total))
    if done is None:
        return ""
    return f"{name} {done:g}" + (f"/{whole:g}" if whole is not None else "")


def _share(fields: Mapping[str, Any]) -> str:
    """Return how much of it is done: by steps, else by epochs; empty where nobody knows of how many."""
    for name, total in (("step", "steps"), ("step", "total"), ("epoch", "epochs")):
        done, whole = _number(fields.get(name)), _number(fields.get(total))
        if done is not None and whole and 0 <= done <= whole:  # not of inf or nan either
            return f"{100 * done / whole:.0f} %"
    return ""


def _metrics(found: Mapping[str, Any]) -> list[str]:
    """Return the loss and the accuracy: what fits in a column."""
    accuracy = next((name for name in found if re.match(r"acc|[a-z_]*_accuracy", name)), "accuracy")
    pairs = ((name, _number(found.get(name))) for name in ("loss", accuracy) if not name.startswith("val_"))
    return [f"{name} {value:.3g}" for name, value in pairs if value is not None]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _read(lines: Sequence[str]) -> str:
    """Find the last progress bar of Keras or tqdm, the epoch that it is in, and the last metrics."""
    epoch = step = ""
    metrics: list[str] = []
    for line in reversed(lines):
        if not (epoch or step) and (bar := _TQDM.search(line)):
            return _tqdm(bar)
        begun, at = _EPOCH.search(line), _STEP.match(line)
        if at and not (epoch or step):
            step = f"step {at[1].removesuffix('/Unknown')}"
        if begun and not epoch:
            epoch = f"epoch {begun[1]}/{begun[2]}"
        if begun or at:
            metrics = metrics or _metrics(dict(_METRIC.findall(line)))
        if epoch and metrics:
            break
    return "  ".join(word for word in (epoch, step, *metrics) if word)


def _tqdm(bar: re.Match[str]) -> str:
    what, percent, count, left, rest = bar.groups()
    words = [what.strip()] if what and what.strip() else []
    words += [f"{percent} %  {count}", *_metrics(dict(_METRIC.findall(rest)))]
    if "?" not in left and percent != "100":
        parts = [int(part) for part in left.split(":")]
        words.append(f"ETA {span(sum(n * 60**power for power, n in enumerate(reversed(parts))))}")
    return "  ".join(words)


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def amount(number: float) -> str:
    """Return at most four characters: 87, 2.1k, 310k, 1.2M."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.0f}G"


def span(seconds: float) -> str:
    """Return 12 s, 3 min, 2 h 3 min, 3 d 4 h."""
    if seconds < 59.5:
        return f"{max(0.0, seconds):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
