"""What the proof says when the environment is broken."""

from __future__ import annotations

import pytest

from orchestrator.container.proof import look
from orchestrator.errors import HostError
from orchestrator.hosts.command import Command
from orchestrator.hosts.fake import FakeMachine

TRACE = """Traceback (most recent call last):
  File "/usr/local/lib/python3.9/dist-packages/tensorflow/__init__.py", line 37, in <module>
  File "{numpy}/numpy/core/_multiarray_umath.py", line 44, in __getattr__
ImportError: numpy.core.multiarray failed to import
"""


@pytest.mark.parametrize(
    ("numpy", "hinted"),
    [
        ("/home/ana/.local/lib/python3.9/site-packages", True),
        ("/usr/local/lib/python3.9/dist-packages", False),
    ],
)
def test_packages_installed_by_hand_are_named_where_they_break_it(numpy: str, hinted: bool) -> None:
    machine = FakeMachine()
    machine.answer("proof", err=TRACE.format(numpy=numpy), status=1)
    with pytest.raises(HostError, match="multiarray failed to import") as told:
        look(machine, Command(("python3", "proof")))
    assert ("remove home/.local" in str(told.value)) is hinted
