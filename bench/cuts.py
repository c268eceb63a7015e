"""No lost byte: two hosts of a run write 50 MB each while the connections to them are cut at random.

    .venv/bin/python bench/cuts.py            # 25 cuts over each transport, about two minutes
    .venv/bin/python bench/cuts.py --full     # 500 cuts over each transport, about half an hour

A relay before each sshd ends every connection within a second and a half, in the middle of a packet, one in
eight after it stood still. What `orch tail --output` saves, and what `orch tail` shows less its prefixes,
must be byte-equal to the files on the hosts; anything else ends this with an error. Writes bench/cuts.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.cuts import cut_and_compare, seed, trial

FEW, MANY = 25, 500
LIMIT = 3600.0
"""Seconds for the cuts over one transport."""


def main() -> None:
    """Run a trial over each transport, and say its seed before it begins."""
    cuts, told = MANY if "--full" in sys.argv[1:] else FEW, {}
    for transport in ("fabric", "openssh"):
        number = seed()
        print(f"{transport:8}  ORCH_CUT_SEED={number}", flush=True)
        with tempfile.TemporaryDirectory() as folder, trial(Path(folder), transport, number) as made:
            told[transport] = {"seed": number, "said": cut_and_compare(made, cuts, LIMIT)}
        print(f"{transport:8}  {told[transport]['said']}; no byte lost", flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
