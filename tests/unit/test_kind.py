"""Which class of cause an end is of, from what the log said last: what a restart may mend, and what not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates"))
from supervisor.causes import kind_of

NONE = "E cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_{}: no CUDA-capable device is detected"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
RUNTIME = "RuntimeError: CUDA error: CUDA_ERROR_LAUNCH_FAILED"


@pytest.mark.parametrize(
    ("exception", "said", "kind"),
    [
        (None, XID, "gpu"),
        (None, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "gpu"),
        (None, f"{NONE.format('UNKNOWN')}\n{XID}", "gpu"),
        ("tensorflow.errors_impl.InternalError: no stream", XID, "gpu"),
        ("RuntimeError: no stream", XID, "gpu"),
        (RUNTIME, RUNTIME, "gpu"),
        ("ValueError: CUDA_ERROR_LAUNCH_FAILED", "ValueError: CUDA_ERROR_LAUNCH_FAILED", "gpu"),
        ("ValueError: no", XID, "exception"),
        ("KeyError: 'x'", NONE.format("NO_DEVICE"), "exception"),
        ("RuntimeError: no", NONE.format("NO_DEVICE"), "exception"),
        ("RuntimeError: no", NONE.format("UNKNOWN"), "exception"),
        (None, NONE.format("NO_DEVICE"), "exit"),
        (None, NONE.format("UNKNOWN"), "exit"),
        ("RuntimeError: x", "NCCL error in: x.cpp:12, unhandled system error", "nccl"),
    ],
)
def test_the_class_of_an_end(exception: str | None, said: str, kind: str) -> None:
    why = {"kind": "exit", "code": 1, **({"exception": exception} if exception else {})}
    assert kind_of(why, said) == kind
