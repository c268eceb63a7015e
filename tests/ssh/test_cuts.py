"""No byte of a log is lost or doubled, however often the connections to its hosts are cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cuts import SIZE, cut_and_compare, seed, trial

CUTS = int(os.environ.get("ORCH_CUTS", "50"))


@pytest.mark.timeout(900)
def test_no_byte_is_lost_across_fifty_cuts(
    transport: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Saved, and shown less the prefixes, the logs of two hosts are what the hosts have."""
    number = seed()
    with capsys.disabled():
        print(f"\ncuts over {transport}: ORCH_CUT_SEED={number}", flush=True)
    with trial(tmp_path, transport, number, SIZE) as made:
        told = cut_and_compare(made, CUTS)
    with capsys.disabled():
        print(f"cuts over {transport}: {told}", flush=True)
