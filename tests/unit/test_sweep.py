"""What has been swept is told nothing any more: its process group may be somebody else's by now."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates"))
from supervisor.attempt import Attempt


def test_what_was_swept_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    attempt = Attempt("ana", f"run-{secrets.token_hex(4)}", ["true"], str(tmp_path))
    monkeypatch.setattr(os, "killpg", lambda group, number: told.append((group, number)))
    child = attempt.start()
    child.wait()
    attempt.sweep()
    assert told == [(child.pid, signal.SIGKILL)]
    attempt.command.tell(signal.SIGUSR1)
    attempt.begin_end()
    attempt.sweep()
    assert len(told) == 1
