"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that runs the tests in the background has Ctrl-C ignored, and every program that a test starts
# would inherit that. A handler of ours is not inherited: the programs then have what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
